/** From how far a camera sees all of something. */

import { Vector3, type Box3, type Quaternion } from "three";

/** Of half a picture; the rest is for names, and for who flies on. */
const FILLED = 0.8;

export function corners(box: Box3): Vector3[] {
  const { min, max } = box;
  return [0, 1, 2, 3, 4, 5, 6, 7].map((i) => new Vector3(i & 1 ? max.x : min.x, i & 2 ? max.y : min.y, i & 4 ? max.z : min.z));
}

/**
 * Metres from a place at which a camera that looks at it has all the points in its picture.
 *
 * `q_world_camera` turns the camera's axes (x right, y up, z backwards) to the world's.
 */
export function distanceToSee(points: readonly Vector3[], place: Vector3, q_world_camera: Quaternion, fov_y_rad: number, aspect: number): number {
  const toCamera = q_world_camera.clone().invert();
  const up = FILLED * Math.tan(0.5 * fov_y_rad);
  const needed = points.map((point) => {
    const { x, y, z } = point.clone().sub(place).applyQuaternion(toCamera);
    return z + Math.max(Math.abs(x) / aspect, Math.abs(y)) / up;
  });
  return Math.max(0, ...needed);
}
