// The arcade page: choose a course, fly it by keys or gamepad, see clock, gates, result and leader board.

import "../style.css";
import "./arcade.css";

import { ApiError, ask } from "../api";
import { setOptions } from "../controls/group";
import { byId, setClass, setText } from "../dom";
import { LiveFeed } from "../feed";
import { number } from "../format";
import type { Race, Racer, Status, Whoami } from "../status";
import { startTheme } from "../theme";
import { type Connection, Updates } from "../updates";
import { SceneStore } from "../world/facts";
import { Cockpit, resultWords } from "./cockpit";
import { gatesAhead, hasEnded } from "./course";
import { leaders, type RaceResult, showLapFiles, showLeaders } from "./leaders";
import { Pilot } from "./pilot";

interface Course {
  name: string;
  gates: number;
  laps: number;
  length_m: number;
}

const POLL_MS = 125;
const COUNTDOWN_S = 3;
const GO_MS = 800;
const HINT = "Enter starts the race";
const PILOT_KEY = "vil-pilot";
const SPEED_KEY = "vil-speed";

class Arcade {
  private readonly feed = new LiveFeed();
  private readonly scene = new SceneStore(this.feed);
  private readonly screen = byId("screen");
  private readonly cockpit = new Cockpit(this.screen, this.feed);
  private readonly pilot = new Pilot((why) => this.complain(why));
  private readonly course = byId<HTMLSelectElement>("course");
  private readonly laps = byId<HTMLInputElement>("laps");
  private readonly name = byId<HTMLInputElement>("pilot");
  private readonly vehicle = byId<HTMLSelectElement>("vehicle");
  private readonly speed = byId<HTMLSelectElement>("speed");
  private readonly start = byId<HTMLButtonElement>("start");
  private courses: Course[] = [];
  private race: Race | null = null;
  private subjects: Record<string, string> = {};
  private mayFly = false;
  private counting = false;
  private asking = false;
  /** Number of the newest result when the race was set up: a larger one is this race's. */
  private before = 0;
  private ended = false;
  /** A race was started from here. */
  private begun = false;

  constructor() {
    this.name.value = localStorage.getItem(PILOT_KEY) ?? "";
    this.speed.value = localStorage.getItem(SPEED_KEY) ?? "4";
    if (this.speed.selectedIndex < 0) this.speed.value = "4";
    this.takeSpeed();
    byId("choice").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.fly();
    });
    this.course.addEventListener("change", () => {
      this.laps.value = String(this.courses.find(({ name }) => name === this.course.value)?.laps ?? 1);
      void this.choose();
    });
    this.laps.addEventListener("change", () => this.laps.reportValidity() && void this.choose());
    this.vehicle.addEventListener("change", () => this.takeVehicle());
    this.speed.addEventListener("change", () => this.takeSpeed());
    document.addEventListener("keydown", (event) => {
      const here = event.target === document.body || event.target === this.screen;
      if (event.key === "Enter" && here && !event.repeat) void this.fly();
    });
    this.scene.onChange(() => this.takeVehicle());
    this.feed.poses(1e3 / POLL_MS, () => undefined);
    window.setInterval(() => void this.poll(), POLL_MS);
    new Updates({
      status: (now) => this.takeStatus(now),
      log: () => undefined,
      recording: () => undefined,
      connection: (connection) => this.takeConnection(connection),
    });
  }

  private takeConnection(connection: Connection): void {
    const live = connection.state === "live";
    setText(byId("link"), live ? "connected" : connection.state === "refused" ? "refused" : "no connection");
    setClass(byId("link"), `badge ${live ? "good" : "bad"}`);
    if (connection.state === "refused") this.complain(connection.why);
    else if (connection.state === "lost") this.complain("The connection to the bridge is lost. The vehicle hovers.");
    if (live) void this.greet();
  }

  /** Learn what this bridge offers, and what this person may do. */
  private async greet(): Promise<void> {
    try {
      const who = await ask<Whoami>("GET", "whoami");
      this.courses = await ask<Course[]>("GET", "race/courses");
      this.race = await ask<Race>("GET", "race");
      this.mayFly = who.role === "control" && this.race.arcade;
      const why = who.role === "control" ? "This bridge's race has a fixed course. Set race: {arcade: true} to fly it here." : "View only. Open the page with the control token to fly.";
      this.complain(this.mayFly ? "" : why);
      this.offer(this.race);
      this.lock();
      if (this.mayFly && !this.begun) this.cockpit.say(HINT);
      await this.showResults(this.race);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.complain(error.message);
    }
  }

  private offer(race: Race): void {
    const words = (one: Course): string => `${one.name}: ${one.gates} gates, ${number(one.length_m, "m", 0)}`;
    const known = this.courses.length > 0 ? this.courses : [{ name: race.course, gates: race.gates, laps: race.laps, length_m: NaN }];
    this.course.replaceChildren(...known.map((one) => new Option(words(one), one.name)));
    this.course.value = race.course;
    this.laps.value = String(race.laps);
    setOptions(this.vehicle, Object.keys(race.racers));
    this.vehicle.parentElement!.hidden = this.vehicle.options.length < 2;
    this.takeVehicle();
  }

  private takeStatus(now: Status): void {
    this.subjects = Object.fromEntries(Object.entries(now.actors).map(([name, actor]) => [name, actor.subject]));
    this.takeVehicle();
  }

  /** Fly the chosen racer, and look through its camera. */
  private takeVehicle(): void {
    this.pilot.vehicle = this.subjects[this.vehicle.value] ?? "";
    const cameras = this.scene.facts?.cameras ?? [];
    const camera = cameras.find(({ actor }) => actor === this.vehicle.value);
    if (camera !== undefined) this.cockpit.watch(camera.name, camera.variants.includes("compensated") ? "compensated" : "raw");
  }

  private takeSpeed(): void {
    this.pilot.speed_mps = Number(this.speed.value);
    localStorage.setItem(SPEED_KEY, this.speed.value);
  }

  /** Set up another course, or other laps: the vehicle waits at the start. */
  private async choose(): Promise<void> {
    if (this.counting) return;
    this.begun = false;
    this.cockpit.say(HINT);
    await this.setUp(true);
  }

  private async setUp(whole: boolean): Promise<boolean> {
    try {
      const pilots = { [this.vehicle.value]: this.name.value.trim() };
      const course = { course: this.course.value, laps: this.laps.valueAsNumber };
      this.before = Math.max(0, ...(await ask<RaceResult[]>("GET", "race/results")).map(({ result }) => result));
      this.race = await ask<Race>("PUT", "race", whole ? { ...course, pilots } : { pilots });
      this.ended = false;
      setText(byId("result"), "");
      showLapFiles(byId("lap-files"), null);
      if (whole) await this.showResults(this.race);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.complain(error.message);
      return false;
    }
  }

  /** Put the vehicle to the start, count down, and go. */
  private async fly(): Promise<void> {
    if (this.counting || !this.mayFly || !this.laps.reportValidity()) return;
    localStorage.setItem(PILOT_KEY, this.name.value.trim());
    this.counting = true;
    this.lock();
    this.screen.focus();
    this.screen.scrollIntoView({ block: "nearest" });
    let ready = await this.setUp(true);
    for (let left = COUNTDOWN_S; ready && left > 0; left -= 1) {
      this.cockpit.say(String(left));
      await new Promise((done) => window.setTimeout(done, 1000));
    }
    ready &&= await this.setUp(false);
    this.counting = false;
    this.lock();
    this.begun = ready;
    if (ready) this.pilot.begin();
    this.cockpit.say(ready ? "Go" : HINT);
    window.setTimeout(() => this.begun && !this.counting && !this.ended && this.cockpit.say(""), GO_MS);
  }

  private lock(): void {
    this.pilot.locked = this.counting || !this.mayFly;
    for (const input of [this.course, this.laps, this.vehicle, this.start]) input.disabled = this.counting || !this.mayFly;
  }

  private async poll(): Promise<void> {
    setText(byId("pad"), this.pilot.pad.name || "none found: press one of its buttons");
    if (this.pilot.pad.startPressed()) void this.fly();
    if (document.hidden || this.asking || this.race === null) return;
    this.asking = true;
    try {
      const race = await ask<Race>("GET", "race");
      if (!this.counting) await this.show(race);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the updates say so
    } finally {
      this.asking = false;
    }
  }

  private async show(race: Race): Promise<void> {
    const isOther = race.course !== this.race?.course || race.laps !== this.race.laps;
    this.race = race;
    if (isOther && document.activeElement !== this.laps) {
      this.offer(race); // somebody else has set up another one
      await this.showResults(race);
    }
    const racer = race.racers[this.vehicle.value];
    if (racer === undefined) return;
    this.cockpit.gates = gatesAhead(this.scene.facts, racer);
    this.cockpit.show(race, this.begun || !this.mayFly ? racer : { ...racer, state: "ready", race_s: 0 }, this.scene.facts?.course ?? null, this.speedOf(this.vehicle.value));
    if (this.begun && hasEnded(racer) && !this.ended) await this.end(race, racer);
  }

  /** NaN while it is unknown. */
  private speedOf(actor: string): number {
    const index = this.scene.facts?.actors.findIndex(({ name }) => name === actor) ?? -1;
    return this.feed.newest?.actors.find((pose) => pose.index === index)?.speed_mps ?? NaN;
  }

  private async end(race: Race, racer: Racer): Promise<void> {
    this.ended = true;
    const words = resultWords(racer);
    this.cockpit.say(words);
    setText(byId("result"), `${words}.`);
    await this.showResults(race);
  }

  private async showResults(race: Race): Promise<void> {
    const results = await ask<RaceResult[]>("GET", "race/results");
    const mine = results.filter((one) => one.racer === this.vehicle.value && one.result > this.before).at(-1) ?? null;
    if (this.ended) showLapFiles(byId("lap-files"), mine);
    setText(byId("leaders-of"), `${race.course}, ${race.laps} ${race.laps === 1 ? "lap" : "laps"}`);
    showLeaders(byId<HTMLTableElement>("leaders"), leaders(results, race.course, race.laps), this.ended ? (mine?.result ?? null) : null);
  }

  private complain(why: string): void {
    byId("why").hidden = why === "";
    setText(byId("why"), why);
  }
}

startTheme(byId<HTMLButtonElement>("theme"), () => undefined);
new Arcade();
