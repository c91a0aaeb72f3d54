// One preview: the picture on a canvas, and over it which frame it is, how old, and how far it was turned.

import { element, setFacts, setText } from "../dom";
import type { LiveFeed, Preview, PreviewHeader, Release, Variant } from "../feed";
import { degrees, duration, number } from "../format";
import { NO_GATES } from "../race/course";
import { GateOverlay } from "../race/overlay";

const RATE_HZ = 10;
const LOOK_MS = 500;
const TITLES: Record<Variant, string> = { raw: "raw", compensated: "compensated" };

export class Picture {
  readonly node = element("figure", "picture");
  private readonly canvas = element("canvas");
  private readonly gateOverlay = new GateOverlay();
  private readonly overlay = element("dl", "overlay");
  private readonly note = element("p", "picture-note", "no picture yet");
  private release: Release | null = null;
  private timer = 0;
  private decoding = false;
  private seenMs: number | null = null;
  private header: PreviewHeader | null = null;
  /** Why the bridge sends no pictures of this camera, "" = it does. */
  problem = "";
  /** Gates of a race to mark; the vehicle's own pictures stay clean. */
  gates = NO_GATES;

  /** `patienceMs` says for how long a picture is new. */
  constructor(private readonly feed: LiveFeed, readonly camera: string, readonly variant: Variant, public patienceMs: number) {
    const caption = element("figcaption", "", `${camera}, ${TITLES[variant]}`);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `newest picture of ${camera}, ${TITLES[variant]}`);
    this.node.dataset.variant = variant;
    this.node.dataset.camera = camera;
    this.node.append(this.canvas, this.gateOverlay.node, this.note, this.overlay, caption);
  }

  /** Ask for pictures, or no longer: what was shown last stays, with its age. */
  watch(on: boolean): void {
    if (on === (this.release !== null)) return;
    this.release?.();
    clearInterval(this.timer);
    this.release = on ? this.feed.preview(this.camera, this.variant, RATE_HZ, (preview) => void this.take(preview)) : null;
    if (!on) return;
    this.timer = window.setInterval(() => this.look(), LOOK_MS);
    this.look();
  }

  /** Draw the newest; what comes while one is being decoded is passed over. */
  private async take({ header, jpeg }: Preview): Promise<void> {
    if (this.decoding) return;
    this.decoding = true;
    try {
      const bitmap = await createImageBitmap(jpeg);
      if (this.canvas.width !== bitmap.width) this.canvas.width = bitmap.width;
      if (this.canvas.height !== bitmap.height) this.canvas.height = bitmap.height;
      this.canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
      bitmap.close();
      this.gateOverlay.draw(header, this.gates);
      this.seenMs = performance.now();
      this.tell(header);
    } catch {
      setText(this.note, "a picture that cannot be shown came");
    } finally {
      this.decoding = false;
    }
  }

  private tell(header: PreviewHeader): void {
    this.header = header;
    this.look();
  }

  /** An old picture is never shown as new, it is grey and says its age and why. */
  private look(): void {
    const silent_ms = this.seenMs === null ? Infinity : performance.now() - this.seenMs;
    const old = silent_ms >= this.patienceMs;
    this.node.classList.toggle("old-picture", old && this.seenMs !== null);
    setText(this.note, this.words(old, silent_ms));
    this.note.hidden = this.note.textContent === "";
    if (this.header === null) return;
    const { blank, frame_id, age_s, angle_rad } = this.header;
    setFacts(this.overlay, [
      ["frame", blank ? "none" : String(frame_id)],
      ["age", duration(age_s === null ? null : age_s + (old ? silent_ms / 1e3 : 0))],
      ["warp", this.variant === "raw" ? "none" : number(degrees(angle_rad), "°", 2)],
    ]);
  }

  private words(old: boolean, silent_ms: number): string {
    const why = this.problem && `: ${this.problem}`;
    if (this.seenMs === null) return `no picture yet${why}`;
    if (old) return `old: last picture ${duration(silent_ms / 1e3)} ago${why}`;
    return this.header?.blank ? `black on purpose: its carrier is lost${why}` : "";
  }
}
