// Attitudes for people: yaw about z, then pitch about y, then roll about x, in degrees.

export type Quaternion = [x: number, y: number, z: number, w: number];

const RAD = Math.PI / 180;
const UPRIGHT = 1 - 1e-9;

export function fromYpr(yaw_deg: number, pitch_deg: number, roll_deg: number): Quaternion {
  const [cy, sy] = [Math.cos((yaw_deg * RAD) / 2), Math.sin((yaw_deg * RAD) / 2)];
  const [cp, sp] = [Math.cos((pitch_deg * RAD) / 2), Math.sin((pitch_deg * RAD) / 2)];
  const [cr, sr] = [Math.cos((roll_deg * RAD) / 2), Math.sin((roll_deg * RAD) / 2)];
  return [
    cy * cp * sr - sy * sp * cr,
    cy * sp * cr + sy * cp * sr,
    sy * cp * cr - cy * sp * sr,
    cy * cp * cr + sy * sp * sr,
  ];
}

export function toYpr([x, y, z, w]: Quaternion): [yaw_deg: number, pitch_deg: number, roll_deg: number] {
  const sine = Math.min(1, Math.max(-1, 2 * (w * y - z * x)));
  // Looking straight up or down, yaw and roll turn about one axis: all of it is yaw.
  if (Math.abs(sine) > UPRIGHT) return [within(2 * Math.atan2(z, w)) / RAD, 90 * Math.sign(sine), 0];
  return [
    Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)) / RAD,
    Math.asin(sine) / RAD,
    Math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)) / RAD,
  ];
}

/** An angle between -π and π. */
function within(rad: number): number {
  return Math.atan2(Math.sin(rad), Math.cos(rad));
}
