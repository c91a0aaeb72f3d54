// The race on the dashboard: the leader's clock, all racers with gaps and splits, and the reset.

import { ApiError, ask } from "../api";
import { byId, element, setClass, setFacts, setText } from "../dom";
import { UNKNOWN, count, number } from "../format";
import type { Race, Racer, Status } from "../status";
import { type Column, quiet, right, type Row, setTable, strong, withDetails } from "../table";
import { hasEnded, lapOf, penaltyWords, raceTime, stateWords } from "./course";

const R = "number";
const TICK_MS = 100;
const COLUMNS: Column[] = [
  ["place", R], ["racer"], ["state"], ["clock", R], ["penalty", R], ["gap", R], ["gates", R], ["next gate"], ["lap", R], ["last lap", R], ["best lap", R],
];
const STATE_CLASS: Record<string, string> = { racing: "coast", finished: "good", waiting: "fair", ready: "fair" };
const MOST_SPLITS = 16;

export class RaceBoard {
  private readonly host = byId("race");
  private readonly clock = element("p", "race-clock");
  private readonly facts = element("dl", "facts");
  private readonly button = Object.assign(element("button", "", "Reset the race"), { type: "button", disabled: true });
  private readonly answer = element("p", "answer");
  private race: Race | null = null;
  private heardMs = 0;

  constructor() {
    const head = element("div", "race-head");
    head.append(this.clock, this.facts, this.button);
    byId("race-head").append(head, this.answer);
    this.answer.setAttribute("role", "status");
    this.button.addEventListener("click", () => void this.reset());
    window.setInterval(() => this.tick(), TICK_MS);
  }

  /** Lock the reset, for those who may only look. */
  lock(locked: boolean): void {
    this.button.disabled = locked;
  }

  show({ race }: Status): void {
    this.race = race;
    this.heardMs = performance.now();
    this.host.hidden = race === null;
    if (race === null) return;
    byId("arcade-link").hidden = !race.arcade;
    setFacts(this.facts, [
      ["course", race.course],
      ["laps", count(race.laps)],
      ["gates per lap", count(race.gates)],
      ["longest time", race.timeout_s === null ? "unlimited" : number(race.timeout_s, "s", 0)],
    ]);
    const rows = Object.entries(race.racers).map(([name, racer]): [Row, string] => [row(race, name, racer), splits(race, racer)]);
    setTable(byId<HTMLTableElement>("racers"), COLUMNS, withDetails(rows, COLUMNS.length));
    this.tick();
  }

  /** Clocks go on between two states of the bridge. */
  private tick(): void {
    if (this.race === null || document.hidden) return;
    const leader = Object.values(this.race.racers)[0];
    if (leader === undefined) return;
    const since_s = leader.state === "racing" ? 1e-3 * (performance.now() - this.heardMs) : 0;
    setText(this.clock, raceTime(leader.race_s + Math.min(since_s, 1)));
  }

  private async reset(): Promise<void> {
    try {
      await ask<Race>("POST", "race/reset");
      this.say("The race starts again. The signal comes once each racer is seen.", "");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.say(error.message, "bad");
    }
  }

  private say(text: string, className: string): void {
    setText(this.answer, text);
    setClass(this.answer, `answer ${className}`);
  }
}

function row(race: Race, name: string, racer: Racer): Row {
  const last = racer.laps_s.at(-1);
  return [
    right(count(racer.place)),
    strong(racer.pilot === "" ? name : `${racer.pilot} (${name})`),
    { text: stateWords(racer.state), badge: `badge ${STATE_CLASS[racer.state] ?? "bad"}` },
    right(raceTime(racer.race_s)),
    right(penaltyWords(racer.penalty_s) || UNKNOWN),
    right(racer.gap_s === null ? UNKNOWN : `+${racer.gap_s.toFixed(2)}`),
    right(`${racer.passed}${racer.missed > 0 ? ` (${racer.missed} missed)` : ""}`),
    hasEnded(racer) ? quiet(UNKNOWN) : strong(racer.next_gate),
    right(`${lapOf(race, racer)} of ${race.laps}`),
    right(last === undefined ? UNKNOWN : raceTime(last)),
    right(racer.laps_s.length === 0 ? UNKNOWN : raceTime(Math.min(...racer.laps_s))),
  ];
}

/** Times between the newest gates, by the gate's number in the race, from 1. */
function splits(race: Race, { splits_s, collisions }: Racer): string {
  const gates = Object.keys(splits_s).map(Number).sort((a, b) => a - b);
  const parts = gates.map((gate, i) => {
    const before_s = i === 0 ? 0 : splits_s[gates[i - 1]!]!;
    return `${gate + 1}: ${(splits_s[gate]! - before_s).toFixed(2)}`;
  });
  const hits = collisions > 0 ? `collisions ${collisions}` : "";
  const times = parts.length > 0 ? `splits, s  ${parts.slice(-Math.max(MOST_SPLITS, race.gates)).join("  ")}` : "";
  return [times, hits].filter(Boolean).join(" · ");
}
