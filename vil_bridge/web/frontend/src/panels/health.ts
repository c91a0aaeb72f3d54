// The tables: who works, since when, how well, and if not, why and what helps.

import { cure } from "../cures";
import { byId } from "../dom";
import { count, counters, degrees, duration, facts, number, smallTime } from "../format";
import type { Report, Status } from "../status";
import { quiet, right, setTable, state, strong, withDetails, type Column } from "../table";

const R = "number";
const allFacts = byId<HTMLInputElement>("all-facts");

export function showHealth(now: Status): void {
  for (const show of [showSources, showActors, showRenderers, showCameras, showStreams, showOutputs, showMaps, showFaults]) show(now);
}

function since(report: Report, now: Status): string {
  return duration((now.t_ns - report.since_ns) / 1e9);
}

/** Why a component is as it is, what helps, and what it has counted. */
function words(kind: string, report: Report): string {
  const { replay, injected } = report.facts;
  const played = typeof replay === "string" ? `replays ${replay}; live events are held back` : "";
  const parts = [report.reason, cure(kind, report), played, injected ? `injected faults: ${String(injected)}` : "", counters(report.counters)];
  if (allFacts.checked) parts.push(facts(report.facts));
  if (report.last_error && report.last_error !== report.reason) parts.push(`last error: ${report.last_error}`);
  return parts.filter(Boolean).join(" · ");
}

function dropped(reasons: Record<string, number>): string {
  const some = counters(reasons);
  return some && `dropped: ${some}`;
}

function table(id: string): HTMLTableElement {
  return byId<HTMLTableElement>(id);
}

function showSources(now: Status): void {
  const columns: Column[] = [["name"], ["type"], ["state"], ["since", R], ["rate", R], ["age", R], ["gaps", R], ["clock offset", R], ["±", R], ["drift", R]];
  const rows = Object.entries(now.sources).map(([name, { report, type, rate_hz, age_s, clock, degraded }]) => [[
    strong(name),
    quiet(type),
    state(report.state),
    right(since(report, now)),
    right(number(rate_hz, "Hz")),
    right(duration(age_s)),
    right(count(report.counters.gaps ?? report.counters.lost ?? 0)),
    right(smallTime(clock.offset_ns)),
    right(smallTime(clock.uncertainty_ns)),
    right(number(clock.drift_ppm, "ppm")),
  ], [words("source", report), degraded].filter(Boolean).join(" · ")] as [ReturnType<typeof right>[], string]);
  setTable(table("sources"), columns, withDetails(rows, columns.length));
}

function showActors(now: Status): void {
  const columns: Column[] = [["name"], ["kind"], ["state"], ["age", R], ["x", R], ["y", R], ["z", R], ["speed", R], ["tracked as"]];
  const rows = Object.entries(now.actors).map(([name, actor]) => [[
    strong(name),
    quiet(actor.kind),
    state(actor.state),
    right(duration(actor.age_s)),
    ...[0, 1, 2].map((axis) => right(number(actor.p_world_m?.[axis], "m", 2))),
    right(number(actor.speed_mps, "m/s", 2)),
    quiet(`${actor.subject} of ${actor.source}`),
  ], [actor.problem, allFacts.checked ? `has been ${counters(actor.seen)}` : ""].filter(Boolean).join(" · ")] as [ReturnType<typeof right>[], string]);
  setTable(table("actors"), columns, withDetails(rows, columns.length));
}

function showRenderers(now: Status): void {
  const columns: Column[] = [["name"], ["type"], ["state"], ["since", R], ["pictures", R], ["time", R], ["busy", R], ["in flight", R], ["draws"]];
  const rows = Object.entries(now.renderers).map(([name, renderer]) => [[
    strong(name),
    quiet(renderer.type),
    state(renderer.report.state),
    right(since(renderer.report, now)),
    right(number(renderer.pictures_hz, "Hz")),
    right(number(renderer.render_ms, "ms")),
    right(number(100 * renderer.utilisation, "%", 0)),
    right(count(renderer.in_flight)),
    quiet(renderer.cameras.join(", ") || "nothing now"),
  ], [renderer.note, words("renderer", renderer.report)].filter(Boolean).join(" · ")] as [ReturnType<typeof right>[], string]);
  setTable(table("renderers"), columns, withDetails(rows, columns.length));
}

function showCameras(now: Status): void {
  const columns: Column[] = [["name"], ["on"], ["drawn by"], ["rate", R], ["of", R], ["age", R], ["warp"], ["angle", R]];
  const rows = Object.entries(now.cameras).map(([name, camera]) => [[
    strong(name),
    quiet(camera.actor),
    quiet(`${camera.renderer} (${camera.assigned})`),
    right(number(camera.measured_hz, "Hz")),
    right(number(camera.rate_hz, "Hz")),
    right(duration(camera.age_s === null ? null : Math.max(0, camera.age_s))),
    quiet(camera.compensation?.method ?? "none"),
    right(number(degrees(camera.compensation?.angle_rad), "°", 2)),
  ], dropped(camera.dropped)] as [ReturnType<typeof right>[], string]);
  setTable(table("cameras"), columns, withDetails(rows, columns.length));
}

function showStreams(now: Status): void {
  const columns: Column[] = [["camera"], ["reader"], ["gets"], ["sent", R], ["dropped"]];
  const rows = Object.entries(now.streams).flatMap(([name, stream]) =>
    stream.subscribers.length === 0
      ? []
      : stream.subscribers.map((reader, index) => [
          strong(index === 0 ? name : ""),
          String(reader.name ?? "?"),
          quiet([reader.modality, reader.variant, reader.encoding].filter(Boolean).join(", ")),
          right(count(typeof reader.sent === "number" ? reader.sent : null)),
          quiet(counters((reader.dropped as Record<string, number> | undefined) ?? {}) || "none"),
        ]),
  );
  setTable(table("streams"), columns, rows);
}

function showOutputs(now: Status): void {
  const columns: Column[] = [["name"], ["type"], ["state"], ["since", R]];
  const rows = Object.entries(now.outputs).map(([name, { report, type }]) => [
    [strong(name), quiet(type), state(report.state), right(since(report, now))],
    words("output", report),
  ] as [ReturnType<typeof right>[], string]);
  setTable(table("outputs"), columns, withDetails(rows, columns.length));
}

function showMaps(now: Status): void {
  byId("h-maps").hidden = Object.keys(now.maps).length === 0;
  const columns: Column[] = [["name"], ["from"], ["voxel", R], ["occupied", R], ["free", R], ["pictures", R], ["time", R]];
  const rows = Object.entries(now.maps).map(([name, map]) => [[
    strong(name),
    quiet(map.cameras.join(", ")),
    right(number(map.resolution_m, "m", 2)),
    right(count(map.occupied)),
    right(count(map.free)),
    right(count(map.pictures)),
    right(number(map.insert_ms, "ms")),
  ], [map.problem, counters({ superseded: map.superseded, failed: map.failed })].filter(Boolean).join(" · ")] as [ReturnType<typeof right>[], string]);
  setTable(table("maps"), columns, withDetails(rows, columns.length));
}

function showFaults(now: Status): void {
  const rows = Object.entries(now.faults)
    .map(([port, reasons]) => [strong(port), quiet(counters(reasons))])
    .filter(([, reasons]) => reasons!.text !== "");
  setTable(table("faults"), [["port"], ["how often, and why"]], rows);
  const senders = now.peer_faults.map((sender) => [
    strong(sender.port),
    sender.peer,
    quiet(sender.reason),
    right(count(sender.count)),
    right(number(sender.age_s, " s ago", 0)),
  ]);
  setTable(table("senders"), [["port"], ["sender"], ["reason"], ["number", R], ["last", R]], senders);
}
