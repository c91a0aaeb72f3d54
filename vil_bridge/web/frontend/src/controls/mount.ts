// Where a camera sits on its carrier, and where it looks: extrinsics and gimbal.

import { ApiError, ask, part } from "../api";
import { element } from "../dom";
import { fromYpr, toYpr, type Quaternion } from "../rotation";
import { field, Group, numberInput, setOptions } from "./group";

interface MountView {
  p_m: [number, number, number];
  q_xyzw: Quaternion;
}

const AXES = [["forward", "m"], ["left", "m"], ["up", "m"], ["yaw", "°"], ["pitch", "°"], ["roll", "°"]] as const;

export class Mount extends Group {
  private readonly camera = element("select");
  private mount: MountView | null = null;
  private readonly inputs = AXES.map(([, unit]) => (unit === "m" ? numberInput(0, { step: 0.01 }) : numberInput(0, { min: -180, max: 180, step: 1 })));

  constructor() {
    super("Camera mount and gimbal", () => void this.load());
    const rows = [element("div", "row"), element("div", "row"), element("div", "row")] as const;
    rows[0].append(field("Camera", this.camera));
    AXES.forEach(([label, unit], i) => rows[i < 3 ? 1 : 2].append(field(label, this.inputs[i]!, unit)));
    this.body.append(...rows, element("p", "quiet", "In the carrier's axes; pitch is positive downwards. Applies from the next picture until the bridge restarts."));
    this.camera.addEventListener("change", () => void this.load());
    this.inputs.forEach((input, i) => {
      input.disabled = true; // until the mount is known: its values would overwrite an edit
      input.addEventListener("change", () => void this.attempt(() => this.set(i)));
    });
  }

  setCameras(names: string[]): void {
    setOptions(this.camera, names);
    if (this.node.open) void this.load();
  }

  /** Show the mount as the bridge has it; what came of a command stays on the page. */
  private async load(): Promise<void> {
    if (this.camera.value === "") return this.say("No camera yet: add one under cameras: in the configuration.");
    try {
      this.show(await ask<MountView>("GET", this.path()), this.edited());
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.say(error.message, "bad");
    }
  }

  private show(mount: MountView, edited: HTMLInputElement | null = null): void {
    this.mount = mount;
    const values = [...mount.p_m.map((m) => m.toFixed(4)), ...toYpr(mount.q_xyzw).map((deg) => deg.toFixed(2))];
    this.inputs.forEach((input, i) => {
      if (input !== edited) input.value = input.defaultValue = String(Number(values[i]));
      input.disabled = false;
    });
  }

  /** The field that somebody types into: the scene is read again at any time, and must not take the text away. */
  private edited(): HTMLInputElement | null {
    return this.inputs.find((input) => input === document.activeElement && input.value !== input.defaultValue) ?? null;
  }

  /** Change what was edited, and nothing else: the fields show a calibrated mount rounded. */
  private async set(edited: number): Promise<string> {
    if (this.mount === null) return "";
    const { validity, valueAsNumber: value } = this.inputs[edited]!;
    if (validity.badInput || validity.valueMissing || validity.rangeUnderflow || validity.rangeOverflow) {
      throw new ApiError(422, "Give metres and degrees as numbers, angles between -180 and 180.");
    }
    const { p_m, q_xyzw } = this.mount;
    const place = [...p_m, ...toYpr(q_xyzw)];
    place[edited] = value;
    const [x, y, z, yaw, pitch, roll] = place as [number, number, number, number, number, number];
    const mount = edited < 3 ? { p_m: [x, y, z], q_xyzw } : { p_m, q_xyzw: fromYpr(yaw, pitch, roll) };
    this.show(await ask<MountView>("PUT", this.path(), mount));
    return "Moved.";
  }

  private path(): string {
    return `cameras/${part(this.camera.value)}/mount`;
  }
}
