/** The head of a tracked body: the head bone of a human, or a rigid body worn on the head (x forward, z up). */

import { Quaternion, Vector3 } from "three";
import type { Poses, SkeletonPose } from "../feed";
import type { ActorFact } from "./facts";
import { headBone } from "./skeleton";

const UP = new Vector3(0, 0, 1);

/** In the world, axes forward, left, up. */
export interface HeadPose {
  t_s: number;
  p_world_m: Vector3;
  q_xyzw: Quaternion;
}

/** Turn about the vertical that is contained in a rotation, radians. */
export function yawOf(q: Quaternion): number {
  return 2 * Math.atan2(q.z, q.w);
}

export class TrackedHead {
  private readonly bones: readonly string[];
  private readonly bone: number;
  private readonly pairs: [left: number, right: number][];
  /** The head's axes in the bone's: systems disagree, so they are learnt from the shoulders and hips of these bones. */
  private learnt: { bones: string; bone_from_head: Quaternion } | null = null;

  /**
   * What was learnt of the same head before another scene came stays known, also through scenes that know no skeleton
   * yet: its wearer may look aside now.
   */
  constructor(
    readonly fact: ActorFact,
    private readonly index: number,
    before: TrackedHead | null = null,
  ) {
    this.bones = fact.skeleton?.bones ?? [];
    this.bone = headBone(this.bones);
    this.pairs = sides(this.bones);
    if (before?.fact.name === fact.name) this.learnt = before.learnt;
  }

  /** Why a tracked body cannot say where its head is; empty = it can. */
  get lack(): string {
    if (this.fact.kind !== "human" || this.bone >= 0) return "";
    return this.fact.skeleton === null ? "its skeleton is not known yet" : 'its skeleton has no bone named "head"';
  }

  /** Take the next pose as looking straight ahead. */
  recentre(): void {
    this.learnt = null;
  }

  /** Null while the place of the head is unknown. */
  read(poses: Poses): HeadPose | null {
    if (this.lack !== "") return null; // its root is at the hips
    const actor = poses.actors.find(({ index }) => index === this.index);
    if (actor === undefined || (actor.state !== "tracked" && actor.state !== "coasting")) return null;
    const skeleton = poses.skeletons.find(({ index }) => index === this.index);
    if (this.bone >= 0) return skeleton === undefined ? null : this.readBone(poses.t_s, skeleton);
    const q_xyzw = new Quaternion().fromArray(actor.q_xyzw);
    return { t_s: poses.t_s, p_world_m: new Vector3().fromArray(actor.p_world_m), q_xyzw };
  }

  private readBone(t_s: number, { bones }: SkeletonPose): HeadPose {
    const p_world_m = new Vector3().fromArray(bones, 7 * this.bone);
    const q_bone = new Quaternion().fromArray(bones, 7 * this.bone + 3);
    const names = this.bones.join();
    if (this.learnt?.bones !== names) {
      this.learnt = { bones: names, bone_from_head: q_bone.clone().invert().multiply(this.upright(bones)) };
    }
    return { t_s, p_world_m, q_xyzw: q_bone.multiply(this.learnt.bone_from_head) };
  }

  /** Level, and facing as the body does. */
  private upright(bones: Float32Array): Quaternion {
    const left = new Vector3();
    const other = new Vector3();
    for (const [l, r] of this.pairs) left.add(other.fromArray(bones, 7 * l)).sub(other.fromArray(bones, 7 * r));
    return new Quaternion().setFromAxisAngle(UP, Math.atan2(-left.x, left.y));
  }
}

/** Bones that a body has on both sides, by their names: LeftArm and RightArm, LThigh and RThigh, hand_l and hand_r. */
function sides(bones: readonly string[]): [number, number][] {
  const index = new Map(bones.map((bone, i) => [bone.toLowerCase(), i]));
  return bones.flatMap((bone, left): [number, number][] => {
    const name = bone.toLowerCase();
    const twins = [name.replace("left", "right"), name.replace(/(^|[:_.])l/, "$1r"), name.replace(/([_.])l$/, "$1r")];
    const right = twins.filter((twin) => twin !== name).flatMap((twin) => index.get(twin) ?? [])[0];
    return right === undefined ? [] : [[left, right]];
  });
}
