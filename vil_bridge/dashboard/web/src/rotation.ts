// Attitudes for people: yaw about z, then pitch about y, then roll about x, in degrees.

export type Quaternion = [x: number, y: number, z: number, w: number];

const RAD = Math.PI / 180;

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
  return [
    Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)) / RAD,
    Math.asin(sine) / RAD,
    Math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)) / RAD,
  ];
}
