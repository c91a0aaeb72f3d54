// Gates in a picture: where their corners are, and which way to look for one that is out of sight.

import { Quaternion, Vector3 } from "three";
import type { PreviewHeader } from "../feed";
import type { GateFact } from "../world/facts";

export type Point = [x_px: number, y_px: number];

/** A gate as a camera sees it. */
export interface SeenGate {
  /** Outline of the opening in pixels, cut off at the camera's plane; empty behind the camera. */
  outline: Point[];
  /** Middle of the opening; null outside the picture. */
  middle: Point | null;
  /** Way to turn, a unit vector in the picture (x right, y down), for a gate whose middle is outside it. */
  towards: Point;
  distance_m: number;
  /** The camera is on the side to which one flies: the gate counts from the other one. */
  isBehind: boolean;
}

const NEAR_M = 0.05;
const LEAST = 1e-6;
/** y (left) and z (up), as the pilot sees them: top left, top right, bottom right, bottom left. */
const CORNERS: [number, number][] = [[1, 1], [-1, 1], [-1, -1], [1, -1]];

/** See a gate with the camera of a preview; null where its pose is unknown. */
export function seenGate(gate: GateFact, { K, pose, width, height }: PreviewHeader): SeenGate | null {
  if (pose === undefined || pose === null) return null;
  const toCamera = new Quaternion(...pose.q_xyzw).invert();
  const eye = new Vector3(...pose.p_m);
  const turn = new Quaternion(...gate.q_xyzw);
  const place = new Vector3(...gate.p_m);
  const inCamera = (y_m: number, z_m: number): Vector3 =>
    new Vector3(0, y_m, z_m).applyQuaternion(turn).add(place).sub(eye).applyQuaternion(toCamera);
  const [fx, fy, cx, cy] = K as [number, number, number, number];
  const pixel = ({ x, y, z }: Vector3): Point => [(fx * x) / z + cx + 0.5, (fy * y) / z + cy + 0.5]; // canvases count edges
  const middle = inCamera(0, 0);
  const corners = CORNERS.map(([y, z]) => inCamera(0.5 * y * gate.width_m, 0.5 * z * gate.height_m));
  const at = middle.z > NEAR_M ? pixel(middle) : null;
  const inside = at !== null && at[0] >= 0 && at[0] <= width && at[1] >= 0 && at[1] <= height;
  const fromGate = eye.clone().sub(place).applyQuaternion(turn.clone().invert());
  return {
    outline: cut(corners).map(pixel),
    middle: inside ? at : null,
    towards: direction(middle),
    distance_m: middle.length(),
    isBehind: fromGate.x > 0,
  };
}

/** The part of a polygon in front of the camera. */
function cut(corners: Vector3[]): Vector3[] {
  return corners.flatMap((corner, i) => {
    const before = corners[(i + corners.length - 1) % corners.length]!;
    const crosses = corner.z > NEAR_M !== before.z > NEAR_M;
    const border = crosses ? [before.clone().lerp(corner, (NEAR_M - before.z) / (corner.z - before.z))] : [];
    return corner.z > NEAR_M ? [...border, corner] : border;
  });
}

function direction({ x, y }: Vector3): Point {
  const size = Math.hypot(x, y);
  return size < LEAST ? [1, 0] : [x / size, y / size];
}
