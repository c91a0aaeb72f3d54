// Results of this bridge: the leader board of a course, and the flight of each lap as a file.

import { element, setChildren, setText } from "../dom";
import { moment, UNKNOWN } from "../format";
import { type Column, quiet, right, setTable, strong } from "../table";
import { penaltyWords, raceTime } from "./course";

/** A race of one racer that has ended, as `GET api/v1/race/results` has it. */
export interface RaceResult {
  result: number;
  ended_utc: string;
  course: string;
  race_laps: number;
  racer: string;
  pilot: string;
  outcome: string;
  total_s: number;
  penalty_s: number;
  laps_s: number[];
  laps: number[];
}

const MOST = 10;
const COLUMNS: Column[] = [["place", "number"], ["pilot"], ["time", "number"], ["penalty", "number"], ["best lap", "number"], ["when"]];

/** Results that finished a course with so many laps, the fastest first. */
export function leaders(results: RaceResult[], course: string, laps: number): RaceResult[] {
  const finished = results.filter((one) => one.outcome === "finished" && one.course === course && one.race_laps === laps);
  return finished.sort((a, b) => a.total_s - b.total_s || a.result - b.result);
}

export function showLeaders(table: HTMLTableElement, board: RaceResult[], newest: number | null): void {
  const rows = board.slice(0, MOST).map((one, index) => [
    right(`${index + 1}.`),
    one.result === newest ? strong(`${one.pilot || one.racer} ◂ you`) : one.pilot || one.racer,
    right(raceTime(one.total_s)),
    right(penaltyWords(one.penalty_s) || UNKNOWN),
    right(one.laps_s.length > 0 ? raceTime(Math.min(...one.laps_s)) : UNKNOWN),
    quiet(moment(one.ended_utc)),
  ]);
  setTable(table, COLUMNS, rows);
}

/** Links to the flight of each lap of a result. */
export function showLapFiles(list: HTMLElement, one: RaceResult | null): void {
  const names = (one?.laps ?? []).map((lap) => `${one!.result}/${lap}`);
  for (const item of setChildren(list, names, () => element("li", "", ""))) {
    const [result, lap] = item.dataset.name!.split("/");
    const link = (item.firstElementChild as HTMLAnchorElement | null) ?? item.appendChild(element("a"));
    link.href = `api/v1/race/results/${result}/laps/${lap}`;
    link.download = `race_${result}_lap_${lap}.csv`;
    setText(link, `Lap ${lap} as CSV`);
  }
}
