// Where a camera sits on its carrier, and where it looks: extrinsics and gimbal.

import { ask, part } from "../api";
import { element } from "../dom";
import { fromYpr, toYpr, type Quaternion } from "../rotation";
import { field, Group, numberInput, setOptions, valueOf } from "./group";

interface MountView {
  p_m: [number, number, number];
  q_xyzw: Quaternion;
}

const AXES = [["forward", "m"], ["left", "m"], ["up", "m"], ["yaw", "°"], ["pitch", "°"], ["roll", "°"]] as const;

export class Mount extends Group {
  private readonly camera = element("select");
  private readonly inputs = AXES.map(([, unit]) => (unit === "m" ? numberInput(0, { step: 0.01 }) : numberInput(0, { min: -180, max: 180, step: 1 })));

  constructor() {
    super("Camera mount and gimbal", () => void this.load());
    const rows = [element("div", "row"), element("div", "row"), element("div", "row")] as const;
    rows[0].append(field("Camera", this.camera));
    AXES.forEach(([label, unit], i) => rows[i < 3 ? 1 : 2].append(field(label, this.inputs[i]!, unit)));
    this.body.append(...rows, element("p", "quiet", "In the carrier's axes; pitch is positive downwards. Holds from the next picture on, until the bridge restarts."));
    this.camera.addEventListener("change", () => void this.load());
    for (const input of this.inputs) input.addEventListener("change", () => void this.attempt(() => this.set()));
  }

  setCameras(names: string[]): void {
    setOptions(this.camera, names);
    if (this.node.open) void this.load();
  }

  private load(): Promise<void> {
    return this.attempt(async () => {
      if (this.camera.value === "") return "No camera yet: add one under cameras: in the configuration.";
      const mount = await ask<MountView>("GET", `cameras/${part(this.camera.value)}/mount`);
      const values = [...mount.p_m.map((m) => m.toFixed(3)), ...toYpr(mount.q_xyzw).map((deg) => deg.toFixed(1))];
      this.inputs.forEach((input, i) => (input.value = String(Number(values[i]))));
      return undefined;
    });
  }

  private async set(): Promise<string> {
    if (this.inputs.some((input) => !input.checkValidity())) return "Metres and degrees are numbers; angles lie between -180 and 180.";
    const [x, y, z, yaw, pitch, roll] = this.inputs.map(valueOf) as [number, number, number, number, number, number];
    await ask("PUT", `cameras/${part(this.camera.value)}/mount`, { p_m: [x, y, z], q_xyzw: fromYpr(yaw, pitch, roll) });
    return "Moved.";
  }
}
