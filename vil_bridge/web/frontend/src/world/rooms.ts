/** A room: its axes, its virtual walls, and which of them somebody comes too near to. */

import {
  BoxGeometry,
  EdgesGeometry,
  Group,
  LineBasicMaterial,
  LineSegments,
  Mesh,
  MeshBasicMaterial,
  PlaneGeometry,
  Vector3,
} from "three";
import { axes } from "./axes";
import type { RoomFact } from "./facts";
import type { Palette } from "./palette";

const QUIET = 0.05;
const LIT = 0.4;
const AXES_M = 0.5;

/** In the room's frame; without walls only its axes. */
export class Room extends Group {
  private readonly faces: { mesh: Mesh<PlaneGeometry, MeshBasicMaterial>; axis: number; sign: number }[] = [];
  private readonly edges: LineSegments<EdgesGeometry, LineBasicMaterial> | null = null;
  private readonly centre = new Vector3();
  private readonly half = new Vector3();

  constructor(
    fact: RoomFact,
    private readonly palette: Palette,
  ) {
    super();
    this.position.fromArray(fact.p_m);
    this.quaternion.fromArray(fact.q_xyzw);
    this.add(axes(AXES_M));
    if (fact.walls === null) return;
    const size = new Vector3().fromArray(fact.walls.max_m).sub(new Vector3().fromArray(fact.walls.min_m));
    this.centre.fromArray(fact.walls.min_m).addScaledVector(size, 0.5);
    this.half.copy(size).multiplyScalar(0.5);
    this.edges = new LineSegments(
      new EdgesGeometry(new BoxGeometry(...size.toArray())),
      new LineBasicMaterial({ color: palette.wall }),
    );
    this.edges.position.copy(this.centre);
    this.add(this.edges);
    for (const axis of [0, 1, 2]) for (const sign of [-1, 1]) this.addFace(axis, sign);
    this.light([], false);
  }

  /** Where its name stands: the middle of the upper edge, or the origin. */
  get labelAt(): Vector3 {
    return this.edges === null ? new Vector3() : new Vector3(this.centre.x, this.centre.y, this.centre.z + this.half.z);
  }

  /** Light the walls next to some places in the world, or the whole room's edges. */
  light(near_world_m: readonly Vector3[], whole: boolean): void {
    const { wall, warning } = this.palette;
    const lit = new Set(near_world_m.map((p) => this.nearest(this.worldToLocal(p.clone()))));
    for (const { mesh, axis, sign } of this.faces) {
      const on = lit.has(`${axis} ${sign}`);
      mesh.material.color.copy(on ? warning : wall);
      mesh.material.opacity = on ? LIT : QUIET;
      mesh.visible = on || axis < 2;
    }
    this.edges?.material.color.copy(whole || lit.size > 0 ? warning : wall);
  }

  private nearest(p: Vector3): string {
    const off = p.sub(this.centre);
    const inside = (axis: number): number => this.half.getComponent(axis) - Math.abs(off.getComponent(axis));
    const axis = [0, 1, 2].reduce((best, next) => (inside(next) < inside(best) ? next : best));
    return `${axis} ${off.getComponent(axis) < 0 ? -1 : 1}`;
  }

  private addFace(axis: number, sign: number): void {
    const [u, v] = [(axis + 1) % 3, (axis + 2) % 3] as [number, number];
    const plane = new PlaneGeometry(2 * this.half.getComponent(u), 2 * this.half.getComponent(v));
    const material = new MeshBasicMaterial({ transparent: true, side: 2, depthWrite: false });
    const mesh = new Mesh(plane, material);
    const axes = [0, 1, 2].map((i) => new Vector3().setComponent(i, 1)) as [Vector3, Vector3, Vector3];
    mesh.matrixAutoUpdate = false;
    mesh.matrix.makeBasis(axes[u] as Vector3, axes[v] as Vector3, axes[axis] as Vector3);
    mesh.matrix.setPosition(this.centre.clone().addScaledVector(axes[axis] as Vector3, sign * this.half.getComponent(axis)));
    this.faces.push({ mesh, axis, sign });
    this.add(mesh);
  }
}
