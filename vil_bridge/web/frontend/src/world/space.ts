/**
 * Where the headset's own space (y up, -z ahead at its start, metres) stands in the world.
 *
 * Both have a vertical, so a place and a turn about it are all there is to know. With a tracked head they
 * follow from the same head seen by both at the same instant: the headset's own tracking then moves the
 * picture at once, and the delay of the mocap's way to the page only delays corrections.
 */

import { Group, Matrix4, Quaternion, Vector3 } from "three";
import { yawOf, type HeadPose } from "./head";

const UP = new Vector3(0, 0, 1);
/** Maps right, up, back to forward, left, up. */
const LEVEL = new Quaternion().setFromRotationMatrix(
  new Matrix4().set(0, 0, -1, 0, -1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1),
);
const REMEMBERED = 128;
const SETTLE_S = 0.15;
const LATELY_MS = 10_000;
const JUMP_M = 0.5;
const JUMP_RAD = 0.5;

interface Seen {
  ms: number;
  p: Vector3;
  q: Quaternion;
}

export class HeadsetSpace {
  /** Carries the camera: T_world_space. */
  readonly rig = new Group();
  /** From the tracked head's origin to the middle between the eyes: forward, left, up. */
  readonly eyes_m = new Vector3();

  /** It was placed since its start. */
  settled = false;

  private yaw_rad = 0;
  private seen: Seen[] = [];
  /** Of late: when poses came by the page's clock, and their stamps by the bridge's; the shortest way is the first. */
  private ways: { ms: number; t_ms: number }[] = [];
  private lastMs = 0;

  constructor() {
    this.set(new Vector3(), 0);
  }

  /** Where the headset says that it is, at `ms` of the page's clock. */
  remember(ms: number, p: Vector3, q: Quaternion): void {
    if (this.seen.push({ ms, p: p.clone().applyQuaternion(LEVEL), q: level(q) }) > REMEMBERED) this.seen.shift();
  }

  /** The headset's own space starts again. */
  forget(): void {
    this.seen = [];
    this.settled = false;
  }

  /** Take the next tracked head, or the next place, unchanged. */
  recentre(): void {
    this.settled = false;
  }

  /** The bridge may come back with another clock. */
  disconnect(): void {
    this.ways = [];
  }

  /** Stand so that a tracked head, which arrived at `ms` of the page's clock, is where the headset was then. */
  align(head: HeadPose, ms: number): void {
    const seen = this.seenAt(this.sentMs(1e3 * head.t_s, ms));
    const yaw_rad = yawOf(head.q_xyzw.clone().multiply(seen.q.clone().invert()));
    const eyes_world_m = this.eyes_m.clone().applyQuaternion(head.q_xyzw).add(head.p_world_m);
    this.settle(eyes_world_m.sub(seen.p.clone().applyAxisAngle(UP, yaw_rad)), yaw_rad, ms);
  }

  /** Stand so that the headset, as last seen, is above a place on the floor and faces there. */
  place(x_m: number, y_m: number, yaw_rad: number): void {
    const { p, q } = this.seenAt(Infinity);
    const turn = yaw_rad - yawOf(q);
    const offset = p.clone().setZ(0).applyAxisAngle(UP, turn);
    this.settled = true;
    this.set(new Vector3(x_m, y_m, 0).sub(offset), turn);
  }

  /** When a pose was sent, by the page's clock. Clocks drift apart: only the ways of late count. */
  private sentMs(t_ms: number, ms: number): number {
    if (t_ms < (this.ways.at(-1)?.t_ms ?? -Infinity)) this.ways = []; // the clock started again
    this.ways = this.ways.filter((way) => way.ms > ms - LATELY_MS && way.ms - way.t_ms < ms - t_ms);
    this.ways.push({ ms, t_ms });
    const shortest = this.ways[0] ?? { ms, t_ms };
    return t_ms + shortest.ms - shortest.t_ms;
  }

  /** Corrections come smoothly; a jump is not followed but taken. */
  private settle(p_m: Vector3, yaw_rad: number, ms: number): void {
    const turn = wrapped(yaw_rad - this.yaw_rad);
    const jump = p_m.distanceTo(this.rig.position) > JUMP_M || Math.abs(turn) > JUMP_RAD;
    const share = this.settled && !jump ? 1 - Math.exp((-1e-3 * (ms - this.lastMs)) / SETTLE_S) : 1;
    this.settled = true;
    this.lastMs = ms;
    this.set(this.rig.position.clone().lerp(p_m, share), this.yaw_rad + share * turn);
  }

  private set(p_m: Vector3, yaw_rad: number): void {
    this.yaw_rad = wrapped(yaw_rad);
    this.rig.position.copy(p_m);
    this.rig.quaternion.setFromAxisAngle(UP, this.yaw_rad).multiply(LEVEL);
  }

  private seenAt(ms: number): Seen {
    const near = (best: Seen, next: Seen): Seen => (Math.abs(next.ms - ms) < Math.abs(best.ms - ms) ? next : best);
    const last = this.seen.at(-1) ?? { ms: 0, p: new Vector3(), q: new Quaternion() };
    return Number.isFinite(ms) ? this.seen.reduce(near, last) : last;
  }
}

function level(q: Quaternion): Quaternion {
  return LEVEL.clone().multiply(q).multiply(LEVEL.clone().invert());
}

function wrapped(angle_rad: number): number {
  return Math.atan2(Math.sin(angle_rad), Math.cos(angle_rad));
}
