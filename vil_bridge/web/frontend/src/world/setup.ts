/** Settings of the wearer's page; stored in its address, so that the link can be sent to the headset. */

import { byId } from "../dom";
import { Vector3 } from "three";
import type { ActorFact } from "./facts";

const HEADSET = new Option("the headset itself", "");
const HEAD_BONE_EYES_M: readonly number[] = [0.09, 0, 0.07];

export class Setup {
  private readonly head = byId<HTMLSelectElement>("head");
  private readonly form = byId<HTMLFormElement>("setup");
  private readonly asked = new URLSearchParams(location.search);

  /** `changed` is called after every change by a person. */
  constructor(changed: () => void) {
    this.head.replaceChildren(HEADSET);
    this.fill(["forward", "left", "up"], this.numbers("eyes", HEAD_BONE_EYES_M));
    this.fill(["x", "y", "facing"], this.numbers("at", [0, 0, 0]));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => {
      this.keep();
      changed();
    });
    this.show();
  }

  /** Name of the actor whose head it is; "" = the headset tracks itself. */
  get actor(): string {
    return this.head.value;
  }

  /** From the tracked head to the middle between the eyes: forward, left, up. */
  get eyes_m(): Vector3 {
    return new Vector3(this.read("forward"), this.read("left"), this.read("up"));
  }

  /** Where a wearer without tracked head stands, and faces. */
  get place(): { x_m: number; y_m: number; yaw_rad: number } {
    return { x_m: this.read("x"), y_m: this.read("y"), yaw_rad: (this.read("facing") * Math.PI) / 180 };
  }

  /** Offer these; the one asked for in the address, or the only human, is taken at first. */
  setActors(actors: readonly ActorFact[]): void {
    const before = this.head.options.length > 1 ? this.head.value : (this.asked.get("actor") ?? onlyHuman(actors));
    this.head.replaceChildren(HEADSET, ...actors.map(({ name }) => new Option(`mocap: ${name}`, name)));
    this.head.value = actors.some(({ name }) => name === before) ? before : "";
    this.show();
  }

  private read(name: string): number {
    const value = (this.form.elements.namedItem(name) as HTMLInputElement).valueAsNumber;
    return Number.isFinite(value) ? value : 0;
  }

  private fill(names: readonly string[], values: readonly number[]): void {
    names.forEach((name, i) => ((this.form.elements.namedItem(name) as HTMLInputElement).value = String(values[i])));
  }

  private numbers(key: string, otherwise: readonly number[]): readonly number[] {
    const values = (this.asked.get(key) ?? "").split(",").map(Number);
    return values.length === otherwise.length && values.every(Number.isFinite) ? values : otherwise;
  }

  private show(): void {
    byId("eyes").hidden = this.actor === "";
    byId("place").hidden = this.actor !== "";
  }

  private keep(): void {
    this.show();
    const { x, y, z } = this.eyes_m;
    const at = ["x", "y", "facing"].map((name) => this.read(name));
    const settings = { actor: this.actor, ...(this.actor === "" ? { at: at.join() } : { eyes: [x, y, z].join() }) };
    history.replaceState(null, "", `?${new URLSearchParams(settings)}`);
  }
}

function onlyHuman(actors: readonly ActorFact[]): string {
  const humans = actors.filter(({ kind }) => kind === "human");
  return humans.length === 1 ? (humans[0] as ActorFact).name : "";
}
