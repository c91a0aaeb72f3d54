// The strip under the head line: does the camera that is flown on deliver, how old is what it shows, who is tracked.

import { byId, element, setChildren, setClass, setFacts, setText } from "../dom";
import { duration, number } from "../format";
import type { Actor, Camera, Percentiles, Status } from "../status";
import { stateClass } from "../table";

const WAYS = [
  ["capture_to_received", "captured to received"],
  ["capture_to_output", "captured to output (no reader reports)"],
] as const;

export class Flown {
  private readonly host = byId("flown");
  private readonly title = element("h2");
  private readonly figures = element("dl", "figure-list");
  private readonly vehicles = element("ul", "vehicles");
  private readonly problem = element("p", "flown-problem badge bad");
  private chosen: string | null = null;

  constructor() {
    this.vehicles.setAttribute("aria-label", "Vehicles");
    this.host.append(this.title, this.figures, this.vehicles, this.problem);
  }

  /** Show this camera; null = the first one on a vehicle. */
  choose(camera: string | null): void {
    this.chosen = camera;
  }

  show(now: Status): void {
    const name = this.chosen !== null && this.chosen in now.cameras ? this.chosen : flownCamera(now);
    const camera = name === null ? undefined : now.cameras[name];
    const vehicles = Object.keys(now.actors).filter((actor) => now.actors[actor]!.kind === "vehicle");
    this.host.hidden = camera === undefined && vehicles.length === 0;
    setText(this.title, camera === undefined ? "No camera" : `${name} on ${camera.actor}`);
    setFacts(this.figures, camera === undefined ? [] : figures(now, camera));
    const problem = camera?.problem ?? "";
    setText(this.problem, now.not_ready_because.some((reason) => reason.includes(problem)) ? "" : problem); // said below
    for (const item of setChildren(this.vehicles, vehicles, (actor) => element("li", "", actor))) {
      const { state, age_s } = now.actors[item.dataset.name!]!;
      setClass(item, `badge ${stateClass(state)}`);
      setText(item, `${item.dataset.name} ${state}${state === "tracked" ? "" : ` ${duration(age_s)}`}`);
    }
  }
}

/** The first camera on a vehicle, or the first one. */
export function flownCamera({ cameras, actors }: { cameras: Record<string, { actor: string }>; actors: Record<string, { kind: string }> }): string | null {
  const names = Object.keys(cameras);
  return names.find((name) => actors[cameras[name]!.actor]?.kind === "vehicle") ?? names[0] ?? null;
}

function figures(now: Status, camera: Camera): [string, string][] {
  const carrier: Actor | undefined = now.actors[camera.actor];
  const [way, words] = WAYS.find(([stage]) => recent(camera, stage).count > 0) ?? WAYS[1];
  const { p50_ms, p95_ms } = recent(camera, way);
  return [
    [words, p50_ms === null ? "–" : `${number(p50_ms, "", 0)} (95 %: ${number(p95_ms, "", 0)}) ms`],
    ["rate, of Hz", `${number(camera.measured_hz)} / ${number(camera.rate_hz, "", 0)}`],
    ["newest picture", camera.age_s === null ? "none yet" : `${duration(Math.max(0, camera.age_s))} old`],
    ...(carrier === undefined ? [] : [[`pose of ${camera.actor}`, `${duration(carrier.age_s)} old`] as [string, string]]),
  ];
}

function recent(camera: Camera, stage: string): Percentiles {
  return camera.latency[stage]?.last_10_s ?? { count: 0, p50_ms: null, p95_ms: null, p99_ms: null, max_ms: null };
}
