// The pilot's picture, with the gates ahead, the clock, the gate's number, speed, and words in the middle.

import { element, setText } from "../dom";
import type { LiveFeed, Preview, Release, Variant } from "../feed";
import { number } from "../format";
import type { Race, Racer } from "../status";
import type { CourseFact } from "../world/facts";
import { type GatesAhead, gatesOfRace, lapOf, NO_GATES, penaltyWords, raceTime, stateWords } from "./course";
import { GateOverlay } from "./overlay";

const RATE_HZ = 15;
const OLD_MS = 1500;
const FLASH_MS = 2500;

export class Cockpit {
  /** Gates to mark. */
  gates: GatesAhead = NO_GATES;

  private readonly canvas = element("canvas", "view");
  private readonly overlay = new GateOverlay();
  private readonly clock = element("p", "hud hud-clock", "0.00");
  private readonly place = element("p", "hud hud-place");
  private readonly speed = element("p", "hud hud-speed");
  private readonly flash = element("p", "hud hud-flash");
  private readonly middle = element("p", "hud hud-middle");
  private readonly note = element("p", "hud hud-note", "no picture yet");
  private release: Release | null = null;
  private camera = "";
  private decoding = false;
  private shownMs = -Infinity;
  private flashedMs = -Infinity;
  private splits = 0;
  private timing: { race_s: number; atMs: number; runs: boolean } = { race_s: 0, atMs: 0, runs: false };

  constructor(host: HTMLElement, private readonly feed: LiveFeed) {
    this.middle.setAttribute("role", "status");
    this.canvas.setAttribute("aria-hidden", "true");
    host.append(this.canvas, this.overlay.node, this.place, this.clock, this.speed, this.flash, this.middle, this.note);
    window.setInterval(() => this.tick(), 50);
  }

  /** Show the pictures of a camera; "" = none. */
  watch(camera: string, variant: Variant): void {
    if (camera === this.camera) return;
    this.camera = camera;
    this.release?.();
    this.release = camera === "" ? null : this.feed.preview(camera, variant, RATE_HZ, (preview) => void this.take(preview));
  }

  /** Show a racer's race; `speed_mps` = of the vehicle. */
  show(race: Race, racer: Racer, course: CourseFact | null, speed_mps: number): void {
    this.timing = { race_s: racer.race_s, atMs: performance.now(), runs: racer.state === "racing" };
    const all = course === null ? race.gates * race.laps : gatesOfRace(course);
    const penalty = penaltyWords(racer.penalty_s);
    const gate = `gate ${Math.min(racer.due + 1, all)} of ${all}`;
    setText(this.place, `lap ${lapOf(race, racer)} of ${race.laps}  ·  ${gate}${penalty && `  ·  ${penalty}`}`);
    setText(this.speed, number(speed_mps, "m/s"));
    this.announce(racer);
  }

  /** Large words over the picture; "" = none. */
  say(words: string): void {
    setText(this.middle, words);
  }

  /** The time between the newest two gates, for a moment. */
  private announce({ splits_s, state }: Racer): void {
    const gates = Object.keys(splits_s).map(Number).sort((a, b) => a - b);
    const last = gates.at(-1);
    if (gates.length !== this.splits && last !== undefined) {
      const split_s = splits_s[last]! - (splits_s[gates.at(-2) ?? -1] ?? 0);
      setText(this.flash, `gate ${last + 1}  ${raceTime(splits_s[last]!)}  (+${raceTime(split_s)})`);
      this.flashedMs = performance.now();
    }
    this.splits = gates.length;
    if (state === "waiting" || state === "ready") this.flashedMs = -Infinity;
  }

  private async take({ header, jpeg }: Preview): Promise<void> {
    if (this.decoding || header.camera !== this.camera) return;
    this.decoding = true;
    try {
      const bitmap = await createImageBitmap(jpeg);
      if (this.canvas.width !== bitmap.width) this.canvas.width = bitmap.width;
      if (this.canvas.height !== bitmap.height) this.canvas.height = bitmap.height;
      this.canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
      bitmap.close();
      this.overlay.draw(header, this.gates);
      this.shownMs = performance.now();
    } catch {
      setText(this.note, "a picture that cannot be shown came");
    } finally {
      this.decoding = false;
    }
  }

  private tick(): void {
    if (document.hidden) return;
    const now = performance.now();
    const { race_s, atMs, runs } = this.timing;
    setText(this.clock, raceTime(race_s + (runs ? Math.min(1e-3 * (now - atMs), 1) : 0)));
    this.flash.hidden = now - this.flashedMs > FLASH_MS;
    const old = now - this.shownMs > OLD_MS;
    this.canvas.classList.toggle("old", old);
    this.note.hidden = !old;
    setText(this.note, this.shownMs < 0 ? "no picture yet: the renderer loads" : "the picture is old");
  }
}

/** What came of a race, in a sentence. */
export function resultWords({ state, race_s, penalty_s, passed }: Racer): string {
  const penalty = penalty_s > 0 ? `, ${withUnit(race_s + penalty_s)} with penalties` : "";
  if (state === "finished") return `Finished in ${withUnit(race_s)}${penalty}`;
  const words = stateWords(state);
  return `${words[0]!.toUpperCase()}${words.slice(1)} after ${withUnit(race_s)} and ${passed} ${passed === 1 ? "gate" : "gates"}`;
}

const withUnit = (seconds: number): string => `${raceTime(seconds)}${seconds < 60 ? " s" : ""}`;
