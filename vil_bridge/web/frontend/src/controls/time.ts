// Simulated time: pause, step, speed.

import { ask } from "../api";
import { element, setText } from "../dom";
import { pace } from "../panels/head";
import type { Simulation } from "../status";
import { field, Group, numberInput, submit, valueOf } from "./group";

export class Time extends Group {
  private readonly real = element("p", "empty", "Time is real. To pause, step and speed it up, set simulation: {clock: simulated} in the configuration.");
  private readonly parts = element("div");
  private readonly toggle = this.button("Pause", () => this.set({ paused: !this.paused }));
  private paused = false;

  constructor() {
    super("Time");
    const seconds = numberInput(0.1, { min: 0.001, max: 3600, step: 0.001 });
    const step = this.form([field("Step", seconds, "s"), submit("Step")], async () => {
      await ask<Simulation>("POST", "simulation/step", { seconds: valueOf(seconds) });
    });
    const speed = numberInput(1, { min: 0.01, max: 100, step: 0.01 });
    const pacing = this.form([field("Speed", speed, "s per s"), submit("Set")], () => this.set({ speed: valueOf(speed) }));
    const row = element("div", "row");
    row.append(this.toggle);
    this.parts.append(row, step, pacing);
    this.body.append(this.real, this.parts);
    this.show(null);
  }

  show(simulation: Simulation | null): void {
    this.real.hidden = simulation !== null;
    this.parts.hidden = simulation === null;
    setText(this.brief, simulation === null ? "real" : pace(simulation));
    this.paused = simulation?.paused ?? false;
    setText(this.toggle, this.paused ? "Resume" : "Pause");
  }

  private async set(change: { paused?: boolean; speed?: number }): Promise<void> {
    this.show(await ask<Simulation>("PATCH", "simulation", change));
  }
}
