// What helps when a component does not work, for people who stand in the room.

import type { Report } from "./status";

const CURES: Record<string, string> = {
  source: "is it switched on and streaming? Check the network with `vil-bridge doctor`, the servers with `vil-bridge discover`",
  renderer: "is it started? `vil-bridge renderer` starts ours; another one connects to the ports of the configuration",
  output: "is the receiver running? The bridge tries again",
};

/** A cure where one is needed; "" while all is well, and for a renderer that is too slow, whose reason has its own. */
export function cure(kind: string, report: Report): string {
  if (report.facts.too_slow) return "";
  return report.state === "running" || report.state === "starting" ? "" : (CURES[kind] ?? "");
}
