// How long each stage of a picture's way takes: a histogram of the last 10 s over the one since the start,
// with percentiles in words.

import { element, setChildren, setClass, setText } from "../dom";
import { number } from "../format";
import type { Camera, Stage, Status } from "../status";
import { Bars } from "./bars";

const WINDOW_NS = 10e9;
const PERIOD_NS = 0.9e9;

interface Sample {
  t_ns: number;
  counts: Record<string, number[]>;
}

export class Latency {
  private readonly choice = element("label", "field");
  private readonly camera = element("select");
  private readonly holder = element("div", "stages");
  private readonly bars = new Map<string, Bars>();
  private samples: Sample[] = [];
  private visible = false;
  private shownNs = 0;

  constructor(private readonly host: HTMLElement) {
    this.choice.append("Camera ", this.camera);
    this.camera.addEventListener("change", () => this.restart());
    this.choice.hidden = true;
    host.append(this.choice, this.holder);
    new IntersectionObserver(([entry]) => (this.visible = entry!.isIntersecting), { rootMargin: "200px" }).observe(host);
  }

  show(now: Status): void {
    const working = Object.keys(now.cameras).filter((name) => Object.keys(stagesOf(now.cameras[name])).length > 0);
    this.host.hidden = working.length === 0;
    const empty = document.getElementById(`${this.host.parentElement!.id}-empty`);
    if (empty !== null) empty.hidden = working.length > 0;
    if (now.t_ns < this.shownNs) this.restart(); // another clock: the bridge was started again
    if (working.length === 0 || now.t_ns - this.shownNs < PERIOD_NS) return;
    this.shownNs = now.t_ns;
    this.offer(working);
    const stages = stagesOf(now.cameras[this.camera.value]);
    const before = this.remember(now.t_ns, stages);
    if (this.visible) this.draw(stages, before);
  }

  /** After a change of colours. */
  redraw(): void {
    for (const bars of this.bars.values()) bars.recolour();
  }

  private offer(names: string[]): void {
    const offered = [...this.camera.options].map((option) => option.value);
    if (offered.join("\n") === names.join("\n")) return;
    const chosen = this.camera.value;
    this.camera.replaceChildren(...names.map((name) => new Option(name, name, name === chosen, name === chosen)));
    this.choice.hidden = names.length < 2;
    if (this.camera.value !== chosen) this.restart();
  }

  private restart(): void {
    this.samples = [];
    this.shownNs = 0;
  }

  /** Keep these counts; those of ten seconds ago, or of the beginning. */
  private remember(t_ns: number, stages: Record<string, Stage>): Sample {
    const counts = Object.fromEntries(Object.entries(stages).map(([name, stage]) => [name, stage.histogram.counts]));
    this.samples.push({ t_ns, counts });
    while (this.samples.length > 2 && this.samples[1]!.t_ns <= t_ns - WINDOW_NS) this.samples.shift();
    return this.samples[0]!;
  }

  private draw(stages: Record<string, Stage>, before: Sample): void {
    const names = Object.keys(stages);
    for (const card of setChildren(this.holder, names, (name) => this.makeStage(name))) {
      const name = card.dataset.name!;
      const { last_10_s: recent, since_start: all, histogram } = stages[name]!;
      const shown = recent.count > 0 ? recent : all;
      const figures = [["p50", shown.p50_ms], ["p95", shown.p95_ms], ["p99", shown.p99_ms], ["max", shown.max_ms]] as const;
      const words = figures.map(([label, value]) => `${label} ${number(value, "ms")}`).join("  ");
      const line = card.querySelector("p")!;
      setText(line, recent.count > 0 ? words : `nothing for 10 s; since the start: ${words}`);
      setClass(line, recent.count > 0 ? "figures" : "figures quiet");
      this.bars.get(name)!.show(histogram.edges_s, shares(histogram.counts, before.counts[name]), shares(histogram.counts));
    }
    for (const name of this.bars.keys()) if (!names.includes(name)) this.bars.delete(name);
  }

  private makeStage(name: string): HTMLElement {
    const card = element("div", "stage");
    const plot = element("div", "plot");
    card.append(element("h3", "", name.replaceAll("_", " ").replace(" to ", " → ")), element("p", "figures"), plot);
    this.bars.set(name, new Bars(plot));
    return card;
  }
}

function stagesOf(camera: Camera | undefined): Record<string, Stage> {
  return Object.fromEntries(Object.entries(camera?.latency ?? {}).filter(([, stage]) => stage.since_start.count > 0));
}

/** Per cent of the samples in each bucket, of those that are new since `before`; counts are cumulative. */
function shares(counts: number[], before?: number[]): number[] {
  const fresh = counts.map((count, i) => count - (before?.[i] ?? 0));
  const total = fresh.at(-1) ?? 0;
  return fresh.map((count, i) => (total > 0 ? (100 * (count - (fresh[i - 1] ?? 0))) / total : 0));
}
