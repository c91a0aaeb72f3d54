/** What actors, props and gates look like: shapes by kind, in metres, x forward, z up. */

import {
  BoxGeometry,
  BufferGeometry,
  CapsuleGeometry,
  ConeGeometry,
  CylinderGeometry,
  EdgesGeometry,
  Group,
  LineBasicMaterial,
  LineSegments,
  Mesh,
  MeshLambertMaterial,
  type ColorRepresentation,
} from "three";
import { mergeGeometries } from "three/addons/utils/BufferGeometryUtils.js";
import type { Vec3 } from "../feed";
import type { ActorFact, GateFact } from "./facts";

const GATE_BAR_M = 0.12;
const EDGE_DEG = 30;

/** The shape of an actor of which nothing but its kind and size is known. */
export function actorShape({ kind, size_m }: ActorFact): BufferGeometry {
  if (kind === "vehicle") return quadrotor(size_m);
  if (kind === "human") return person(size_m);
  return new BoxGeometry(...size_m);
}

/** Body, two arms, four rotors and a nose that says where the front is. */
function quadrotor([x, y, z]: Vec3): BufferGeometry {
  const reach = 0.5 * Math.hypot(x, y);
  const bearing = Math.atan2(y, x);
  const parts: BufferGeometry[] = [new BoxGeometry(0.45 * x, 0.3 * y, 0.55 * z)];
  for (const angle of [bearing, -bearing]) {
    parts.push(new BoxGeometry(1.5 * reach, 0.06 * y, 0.15 * z).rotateZ(angle));
    for (const side of [0, Math.PI]) {
      const rotor = new CylinderGeometry(0.36 * reach, 0.36 * reach, 0.12 * z, 20).rotateX(0.5 * Math.PI);
      parts.push(rotor.translate(0.75 * reach, 0, 0.3 * z).rotateZ(angle + side));
    }
  }
  parts.push(new ConeGeometry(0.12 * y, 0.3 * x, 12).rotateZ(-0.5 * Math.PI).translate(0.37 * x, 0, 0));
  return merged(parts);
}

function person([x, y, z]: Vec3): BufferGeometry {
  const radius = 0.25 * (x + y);
  const trunk = new CapsuleGeometry(radius, Math.max(z - 2 * radius, 0.01), 6, 16).rotateX(0.5 * Math.PI);
  return merged([trunk, new ConeGeometry(0.3 * radius, 0.6 * radius, 12).rotateZ(-0.5 * Math.PI).translate(radius, 0, 0.3 * z)]);
}

/** A frame around the opening, which one flies through along x. */
export function gateShape({ width_m, height_m }: GateFact): BufferGeometry {
  const wide = width_m + 2 * GATE_BAR_M;
  const dy = 0.5 * (width_m + GATE_BAR_M);
  const dz = 0.5 * (height_m + GATE_BAR_M);
  return merged([
    new BoxGeometry(GATE_BAR_M, wide, GATE_BAR_M).translate(0, 0, dz),
    new BoxGeometry(GATE_BAR_M, wide, GATE_BAR_M).translate(0, 0, -dz),
    new BoxGeometry(GATE_BAR_M, GATE_BAR_M, height_m).translate(0, dy, 0),
    new BoxGeometry(GATE_BAR_M, GATE_BAR_M, height_m).translate(0, -dy, 0),
  ]);
}

/** A box with visible edges. */
export function crate(size_m: Vec3, colour: ColorRepresentation, edge: ColorRepresentation): Group {
  const box = new BoxGeometry(...size_m);
  return new Group().add(
    new Mesh(box, new MeshLambertMaterial({ color: colour })),
    new LineSegments(new EdgesGeometry(box, EDGE_DEG), new LineBasicMaterial({ color: edge })),
  );
}

function merged(parts: BufferGeometry[]): BufferGeometry {
  const whole = mergeGeometries(parts);
  for (const part of parts) part.dispose();
  return whole;
}
