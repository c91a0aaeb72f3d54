// What helps when a component does not work, for people who stand in the room.

import type { Report } from "./status";

const CURES: Record<string, string> = {
  source: "is it switched on and streaming? `vil-bridge doctor` looks at the network, `vil-bridge discover` at what sends",
  renderer: "is it started? `vil-bridge renderer` starts ours; a foreign one dials the ports that the configuration names",
  output: "is the far end there? The bridge tries again by itself",
};

/** A cure where one is needed; "" while all is well, and for a renderer that is too slow, whose reason has its own. */
export function cure(kind: string, report: Report): string {
  if (report.facts.too_slow) return "";
  return report.state === "running" || report.state === "starting" ? "" : (CURES[kind] ?? "");
}
