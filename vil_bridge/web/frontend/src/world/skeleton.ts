/** A human of bones: a rounded bar from every bone's parent to it, and a ball for the head. */

import {
  CapsuleGeometry,
  Group,
  InstancedMesh,
  Matrix4,
  Mesh,
  Quaternion,
  SphereGeometry,
  Vector3,
  type Material,
} from "three";
import { GHOST_ORDER } from "./through";

const THICKNESS = 0.16;
const THICKEST_M = 0.07;
const HEAD_M = 0.115;
const UP = new Vector3(0, 0, 1);
const GONE = new Matrix4().makeScale(0, 0, 0);

/** The bone that carries the head, -1 when none is called so. */
export function headBone(bones: readonly string[]): number {
  const bare = bones.map((bone) => bone.replace(/^.*[:_]/, "").toLowerCase());
  return bare.indexOf("head");
}

/** Posed in the world. */
export class SkeletonFigure extends Group {
  private readonly bars: InstancedMesh;
  private readonly ball: Mesh;
  private readonly head: number;
  private readonly from = new Vector3();
  private readonly to = new Vector3();
  private readonly turn = new Quaternion();
  private readonly matrix4 = new Matrix4();

  constructor(
    bones: readonly string[],
    private readonly parents: readonly number[],
    material: Material,
    ghost: Material,
  ) {
    super();
    const bar = new CapsuleGeometry(0.5, 1, 4, 10).rotateX(0.5 * Math.PI).scale(1, 1, 0.5);
    this.bars = new InstancedMesh(bar, material, bones.length);
    this.bars.frustumCulled = false;
    this.ball = new Mesh(new SphereGeometry(HEAD_M, 20, 14).scale(0.9, 0.8, 1.1), material);
    this.head = headBone(bones);
    const hidden = new InstancedMesh(bar, ghost, bones.length);
    hidden.instanceMatrix = this.bars.instanceMatrix;
    const hiddenBall = new Mesh(this.ball.geometry, ghost);
    for (const part of [hidden, hiddenBall]) part.renderOrder = GHOST_ORDER;
    hidden.frustumCulled = false;
    this.ball.add(hiddenBall);
    this.add(this.bars, hidden, this.ball);
  }

  /** `bones`: p_world_m and q_xyzw of each, in the order of the names; `beheaded` leaves the head out. */
  pose(bones: Float32Array, beheaded: boolean): void {
    const count = Math.min(this.parents.length, bones.length / 7);
    for (let i = 0; i < this.parents.length; i += 1) {
      this.bars.setMatrixAt(i, i < count && !(beheaded && this.ofHead(i)) ? this.bar(bones, i) : GONE);
    }
    this.bars.instanceMatrix.needsUpdate = true;
    this.ball.visible = this.head >= 0 && this.head < count && !beheaded;
    if (!this.ball.visible) return;
    const [x, y, z, qx, qy, qz, qw] = bones.subarray(7 * this.head, 7 * this.head + 7) as unknown as number[];
    this.ball.quaternion.set(qx as number, qy as number, qz as number, qw as number);
    this.ball.position.set(x as number, y as number, (z as number) + 0.5 * HEAD_M);
  }

  private ofHead(i: number): boolean {
    return i === this.head || this.parents[i] === this.head;
  }

  private bar(bones: Float32Array, i: number): Matrix4 {
    const parent = this.parents[i] as number;
    if (parent < 0) return GONE;
    this.from.fromArray(bones, 7 * parent);
    this.to.fromArray(bones, 7 * i);
    const length = this.from.distanceTo(this.to);
    if (length < 1e-3) return GONE;
    const thick = Math.min(2 * THICKNESS * length, 2 * THICKEST_M);
    this.turn.setFromUnitVectors(UP, this.to.clone().sub(this.from).divideScalar(length));
    return this.matrix4.compose(this.from.lerp(this.to, 0.5), this.turn, new Vector3(thick, thick, length));
  }
}
