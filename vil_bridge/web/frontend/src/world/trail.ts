import { BufferAttribute, BufferGeometry, Line, LineBasicMaterial, type Color, type Vector3 } from "three";

const POINTS = 300;
const STEP_M = 0.02;

/** Where an actor has been: the last 300 steps of 2 cm or more, fading. The newest point is the last in the buffer. */
export class Trail extends Line<BufferGeometry, LineBasicMaterial> {
  private readonly p = new BufferAttribute(new Float32Array(3 * POINTS), 3);
  private known = 0;

  constructor() {
    super(new BufferGeometry(), new LineBasicMaterial({ vertexColors: true, transparent: true, depthWrite: false }));
    const faint = new Float32Array(4 * POINTS).fill(1).map((one, i) => (i % 4 === 3 ? Math.floor(i / 4) / POINTS : one));
    this.geometry.setAttribute("position", this.p);
    this.geometry.setAttribute("color", new BufferAttribute(faint, 4));
    this.frustumCulled = false;
    this.forget();
  }

  forget(): void {
    this.known = 0;
    this.geometry.setDrawRange(0, 0);
  }

  step(p_world_m: Vector3, colour: Color): void {
    this.material.color.copy(colour);
    const at = 3 * (POINTS - 1);
    const array = this.p.array as Float32Array;
    const [x, y, z] = array.subarray(at) as unknown as [number, number, number];
    if (this.known > 0 && Math.hypot(p_world_m.x - x, p_world_m.y - y, p_world_m.z - z) < STEP_M) return;
    array.copyWithin(0, 3);
    p_world_m.toArray(array, at);
    this.known = Math.min(this.known + 1, POINTS);
    this.geometry.setDrawRange(POINTS - this.known, this.known);
    this.p.needsUpdate = true;
  }
}
