// The light and the weather of the virtual world.

import { ask } from "../api";
import { element, setText } from "../dom";
import { number } from "../format";
import { field, Group, numberInput, setOptions, submit, textInput, valueOf } from "./group";

const AMOUNTS = ["rain", "snow", "leaves", "dust", "fog", "ground_wetness", "ground_snow", "ground_leaves"] as const;

type Weather = Record<(typeof AMOUNTS)[number], number>;

interface Lighting {
  weather: Weather | null;
  time_of_day_h: number | null;
  lamps: Record<string, { power: number; colour: [number, number, number] }>;
}

interface Lamps {
  listed: boolean;
  lamps: Record<string, unknown>;
}

export class Light extends Group {
  private readonly facts = element("p", "wide");
  private readonly names = Object.assign(element("datalist"), { id: "lamp-names" });

  constructor() {
    super("Light and weather", () => void this.attempt(() => this.load()));
    const hour = numberInput(12, { min: 0, max: 24, step: 0.25 });
    this.form([field("Time of day", hour, "h"), submit("Set"), this.button("Scene default", () => this.set({ time_of_day_h: null }))], () =>
      this.set({ time_of_day_h: valueOf(hour) }),
    );
    const lamp = textInput("name in the scene");
    lamp.setAttribute("list", this.names.id);
    lamp.required = true;
    const power = numberInput(0, { min: 0, max: 10_000 });
    this.form([field("Lamp", lamp), field("power", power, "×"), submit("Set"), this.button("Scene default", () => this.reset(lamp))], () =>
      this.set({ lamps: { [lamp.value]: { power: valueOf(power) } } }),
    );
    const what = element("select");
    setOptions(what, [...AMOUNTS]);
    const amount = numberInput(0.3, { min: 0, max: 1, step: 0.05 });
    this.form([field("Weather", what), field("amount", amount), submit("Set"), this.button("Scene default", () => this.set({ weather: null }))], () =>
      this.set({ weather: { [what.value]: valueOf(amount) } }),
    );
    this.body.append(this.names, this.facts);
  }

  private async load(): Promise<void> {
    const { lamps } = await ask<Lamps>("GET", "lighting/lamps");
    this.names.replaceChildren(...Object.keys(lamps).map((name) => new Option(name, name)));
    this.tell(await ask<Lighting>("GET", "lighting"));
  }

  private async reset(lamp: HTMLInputElement): Promise<void> {
    if (lamp.reportValidity()) await this.set({ lamps: { [lamp.value]: null } });
  }

  private async set(change: object): Promise<void> {
    this.tell(await ask<Lighting>("PATCH", "lighting", change));
  }

  private tell({ time_of_day_h, lamps, weather }: Lighting): void {
    const sun = time_of_day_h === null ? "Sun: scene default." : `Sun: as at ${number(time_of_day_h, "h", 2)}.`;
    const changed = Object.entries(lamps).map(([name, { power }]) => `${name} × ${power}`);
    const amounts = weather && AMOUNTS.filter((name) => weather[name] > 0).map((name) => `${name} ${weather[name]}`);
    const air = amounts === null ? "scene default" : amounts.join(", ") || "fine";
    setText(this.facts, `${sun} Lamps: ${changed.length > 0 ? changed.join(", ") : "no changes"}. Weather: ${air}.`);
  }
}
