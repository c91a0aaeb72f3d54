// The head line: does it work, and if not, why.

import { cure } from "../cures";
import { byId, element, setChildren, setClass, setFacts, setText } from "../dom";
import { duration, moment, number, smallTime, UNKNOWN } from "../format";
import type { Simulation, Status } from "../status";
import type { Connection } from "../updates";

const ready = byId("ready");

export function showHead(now: Status): void {
  setText(byId("name"), now.name);
  const [word, look, mark] = readiness(now);
  setText(ready, word);
  setClass(ready, `badge ${look}`);
  setChildren(byId("modes"), now.modes, (word) => element("li", `mode-${word.toLowerCase()}`, word));
  document.title = [...now.modes, `${mark} ${now.name}`].join(" ");
  const general: [string, string][] = [
    ["version", now.version],
    ["up", duration(now.uptime_s)],
    ["loop lag", now.loop_lag_s === null ? UNKNOWN : smallTime(1e9 * now.loop_lag_s)],
    ...(now.process === null ? [] : [["memory", number(now.process.rss_mb, "MB", 0)] as [string, string]]),
    ...(now.simulation === null ? [] : [["time", pace(now.simulation)] as [string, string]]),
  ];
  setFacts(byId("startup"), [...general, ...Object.entries(now.startup).map(([name, value]) => [name.replaceAll("_", " "), String(value)] as [string, string])]);
  showChips(now);
  showReasons(now);
}

/** Ready, degraded (ready, but worse than asked) or not ready: word, class and mark. */
function readiness(now: Status): [word: string, look: string, mark: string] {
  if (!now.ready) return ["not ready", "bad", "✕"];
  if (now.degraded_because.length > 0) return ["degraded", "fair", "◐"];
  return ["ready", "good", "●"];
}

export function pace(simulation: Simulation): string {
  if (simulation.paused) return "simulated, paused";
  return `simulated, ${number(simulation.reached, "", 2)} of ${simulation.speed} s per second`;
}

/** How many of the parts of each kind do their work, of how many. A camera that sends black pictures has a problem. */
export function working(now: Status): Record<string, [good: number, all: number]> {
  const share = (parts: boolean[]): [number, number] => [parts.filter(Boolean).length, parts.length];
  const running = (parts: Record<string, { report: { state: string } }>): [number, number] =>
    share(Object.values(parts).map((part) => part.report.state === "running"));
  return {
    sources: share(Object.values(now.sources).map((source) => source.report.state === "running" && !source.degraded)),
    actors: share(Object.values(now.actors).map((actor) => actor.state === "tracked" || actor.state === "coasting")),
    renderers: running(now.renderers),
    cameras: share(Object.values(now.cameras).map((camera) => camera.problem === "" && !camera.degraded)),
    outputs: running(now.outputs),
  };
}

function showChips(now: Status): void {
  const chips = working(now);
  const some = Object.keys(chips).filter((name) => chips[name]![1] > 0);
  for (const chip of setChildren(byId("chips"), some, makeChip)) {
    const [good, all] = chips[chip.dataset.name!]!;
    const link = chip.firstElementChild!;
    setClass(link, `badge ${good === all ? "good" : good === 0 ? "bad" : "fair"}`);
    setText(link, `${chip.dataset.name} ${good} of ${all}`);
  }
}

function makeChip(name: string): HTMLElement {
  const chip = element("li");
  chip.append(Object.assign(element("a"), { href: `#h-${name}` }));
  return chip;
}

function showReasons(now: Status): void {
  const notes = Object.entries(now.renderers).filter(([, renderer]) => renderer.note);
  const lines = [
    ...now.warnings.map((warning) => warning.text),
    ...now.overload,
    ...now.not_ready_because.map((reason) => withCure(now, reason)),
    ...now.degraded_because,
    ...notes.map(([name, renderer]) => `renderer ${name} ${renderer.note}`),
  ];
  const list = byId("reasons");
  setChildren(list, [...new Set(lines)], (line) => element("li", "", line));
  list.hidden = lines.length === 0;
}

function withCure(now: Status, reason: string): string {
  for (const [kind, parts] of [["source", now.sources], ["renderer", now.renderers]] as const) {
    for (const [name, { report }] of Object.entries(parts)) {
      if (reason.startsWith(`${kind} ${name} is `)) return [reason, cure(kind, report)].filter(Boolean).join(" — ");
    }
  }
  return reason;
}

/** A lost connection is the first thing to see; the page stays as it was, marked as old. */
export function showConnection(connection: Connection): void {
  const lost = byId("lost");
  lost.hidden = connection.state === "live" || connection.state === "connecting";
  document.body.classList.toggle("old", !lost.hidden);
  if (connection.state === "refused") {
    setText(lost, `The bridge refuses this page: ${connection.why}. Trying again…`);
  } else if (connection.state === "lost") {
    setText(lost, `Connection to the bridge lost since ${moment(connection.since)} (${connection.why}); everything below is old. Trying again…`);
  } else {
    return;
  }
  setText(ready, "no connection");
  setClass(ready, "badge bad");
  document.title = "✕ VIL Bridge";
}
