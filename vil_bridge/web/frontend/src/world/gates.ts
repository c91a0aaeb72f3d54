/** The gates of the world: frames to fly through, the one that is due in a colour of its own, with its direction. */

import { BoxGeometry, ConeGeometry, EdgesGeometry, Group, LineBasicMaterial, LineSegments, Mesh, MeshLambertMaterial, type Color } from "three";
import type { SceneFacts } from "./facts";
import { gateShape } from "./figures";
import type { Palette } from "./palette";

const ARROW_SHARE = 0.5; // of the smaller side of the opening

type GateMesh = Mesh<ReturnType<typeof gateShape>, MeshLambertMaterial>;

export class Gates extends Group {
  private readonly frames = new Map<string, GateMesh>();
  private readonly arrow: Mesh<ConeGeometry, MeshLambertMaterial>;

  constructor({ gates, course }: SceneFacts, private readonly palette: Palette) {
    super();
    for (const gate of gates) {
      const frame = new Mesh(gateShape(gate), new MeshLambertMaterial({ color: palette.gate }));
      frame.position.fromArray(gate.p_m);
      frame.quaternion.fromArray(gate.q_xyzw);
      frame.userData["arrow_m"] = ARROW_SHARE * Math.min(gate.width_m, gate.height_m);
      this.frames.set(gate.name, frame);
      this.add(frame);
    }
    this.arrow = new Mesh(new ConeGeometry(0.35, 1, 20).rotateZ(-0.5 * Math.PI), new MeshLambertMaterial({ color: palette["gate-next"] }));
    this.arrow.visible = false;
    this.add(this.arrow);
    if (course?.bounds_m) this.add(bounds(course.bounds_m, palette.room));
  }

  /** Show which gate comes next and which one after it; null = none. */
  mark(next: string | null, after: string | null): void {
    for (const [name, frame] of this.frames) {
      const { gate } = this.palette;
      frame.material.color.copy(name === next ? this.palette["gate-next"] : name === after ? this.palette["gate-after"] : gate);
    }
    const frame = this.frames.get(next ?? "");
    this.arrow.visible = frame !== undefined;
    if (frame === undefined) return;
    this.arrow.position.copy(frame.position);
    this.arrow.quaternion.copy(frame.quaternion);
    this.arrow.scale.setScalar(frame.userData["arrow_m"] as number);
  }
}

function bounds([low, high]: [number[], number[]], colour: Color): LineSegments {
  const size = low.map((side, axis) => high[axis]! - side) as [number, number, number];
  const box = new LineSegments(new EdgesGeometry(new BoxGeometry(...size)), new LineBasicMaterial({ color: colour }));
  box.position.set(low[0]! + 0.5 * size[0], low[1]! + 0.5 * size[1], low[2]! + 0.5 * size[2]);
  return box;
}
