// The course of a race: which gate comes when, and words for a racer's state.

import { number } from "../format";
import type { Race, Racer } from "../status";
import type { CourseFact, GateFact, SceneFacts } from "../world/facts";

/** The gate that is due and the one after it; null = there is none. */
export interface GatesAhead {
  next: GateFact | null;
  after: GateFact | null;
}

export const NO_GATES: GatesAhead = { next: null, after: null };

const OUTCOMES: Record<string, string> = {
  finished: "finished",
  missed: "out: missed a gate",
  collision: "out: collision",
  out_of_bounds: "out of bounds",
  timed_out: "out of time",
};

/** Gates of the whole race. */
export function gatesOfRace({ order, laps, flying }: CourseFact): number {
  return order.length * laps + (flying ? 1 : 0);
}

/** Name of the gate of that number in the race, from 0; null beyond its end. */
function gateName(course: CourseFact, number: number): string | null {
  return number < gatesOfRace(course) ? (course.order[number % course.order.length] ?? null) : null;
}

/** The gates before a racer; none once its race has ended. */
export function gatesAhead(facts: SceneFacts | null, racer: Racer | undefined): GatesAhead {
  const course = facts?.course;
  if (course === undefined || course === null || racer === undefined || hasEnded(racer)) return NO_GATES;
  const find = (name: string | null): GateFact | null => facts?.gates.find((gate) => gate.name === name) ?? null;
  return { next: find(gateName(course, racer.due)), after: find(gateName(course, racer.due + 1)) };
}

/** The lap that a racer flies, from 1. */
export function lapOf({ gates, laps }: Race, { due }: Racer): number {
  return Math.min(Math.floor(due / Math.max(1, gates)) + 1, laps);
}

export const hasEnded = ({ state }: Racer): boolean => state in OUTCOMES;

export const stateWords = (state: string): string => OUTCOMES[state] ?? state;

/** Minutes, seconds and hundredths of a clock; `digits` after the second. */
export function raceTime(seconds: number, digits = 2): string {
  const unit = 10 ** digits;
  const ticks = Math.max(0, Math.floor(seconds * unit + 1e-6));
  const minutes = Math.floor(ticks / (60 * unit));
  const rest = ((ticks % (60 * unit)) / unit).toFixed(digits);
  return minutes > 0 ? `${minutes}:${rest.padStart(digits + 3, "0")}` : rest;
}

/** What was added to a clock; empty = nothing. */
export const penaltyWords = (penalty_s: number): string => (penalty_s > 0 ? `+${number(penalty_s, "s", 0)}` : "");
