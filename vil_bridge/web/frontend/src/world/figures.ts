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

/** Rotors of the renderer's vehicles; four where it is another model. */
const ROTORS: Record<string, number> = { hexarotor: 6, octorotor: 8 };

/** The shape of an actor of which nothing but its kind, model and size is known. */
export function actorShape({ kind, prefab, size_m }: ActorFact): BufferGeometry {
  if (kind === "human") return person(size_m);
  if (kind !== "vehicle") return new BoxGeometry(...size_m);
  if (prefab === "car" || prefab === "rover") return car(size_m);
  if (prefab === "fixed_wing") return fixedWing(size_m);
  return multirotor(size_m, ROTORS[prefab] ?? 4);
}

/** Body, arms with rotors, those of a quadrotor in the corners, and a nose that says where the front is. */
function multirotor([x, y, z]: Vec3, rotors: number): BufferGeometry {
  const reach = 0.5 * (rotors === 4 ? Math.hypot(x, y) : Math.max(x, y));
  const radius = (1.44 * reach) / rotors;
  const bearing = Math.atan2(y, x);
  const parts: BufferGeometry[] = [new BoxGeometry(0.45 * x, 0.3 * y, 0.55 * z), nose(0.3 * x, 0.12 * y, 0.37 * x)];
  for (let k = 0; k < rotors; k += 1) {
    const angle = rotors === 4 ? [bearing, Math.PI - bearing, Math.PI + bearing, -bearing][k]! : (2 * Math.PI * (k + 0.5)) / rotors;
    parts.push(new BoxGeometry(0.75 * reach, 0.06 * y, 0.15 * z).translate(0.375 * reach, 0, 0).rotateZ(angle));
    const rotor = new CylinderGeometry(radius, radius, 0.12 * z, 20).rotateX(0.5 * Math.PI);
    parts.push(rotor.translate(0.75 * reach, 0, 0.3 * z).rotateZ(angle));
  }
  return merged(parts);
}

/** Body, cabin and four wheels. */
function car([x, y, z]: Vec3): BufferGeometry {
  const wheel = 0.22 * z;
  const parts: BufferGeometry[] = [
    new BoxGeometry(x, 0.86 * y, 0.4 * z).translate(0, 0, -0.1 * z),
    new BoxGeometry(0.45 * x, 0.74 * y, 0.4 * z).translate(-0.08 * x, 0, 0.3 * z),
  ];
  for (const [along, across] of [[0.32, 0.42], [0.32, -0.42], [-0.32, 0.42], [-0.32, -0.42]] as const) {
    parts.push(new CylinderGeometry(wheel, wheel, 0.16 * y, 20).translate(along * x, across * y, wheel - 0.5 * z));
  }
  return merged(parts);
}

/** Fuselage with a nose, wing, tailplane and fin. */
function fixedWing([x, y, z]: Vec3): BufferGeometry {
  return merged([
    new BoxGeometry(0.8 * x, 0.1 * y, 0.5 * z).translate(-0.1 * x, 0, 0),
    nose(0.2 * x, 0.05 * y, 0.4 * x),
    new BoxGeometry(0.22 * x, y, 0.08 * z).translate(0.05 * x, 0, 0.2 * z),
    new BoxGeometry(0.12 * x, 0.35 * y, 0.08 * z).translate(-0.44 * x, 0, 0.1 * z),
    new BoxGeometry(0.12 * x, 0.02 * y, 0.5 * z).translate(-0.44 * x, 0, 0.25 * z),
  ]);
}

/** A cone that points ahead. */
function nose(length_m: number, radius_m: number, ahead_m: number): BufferGeometry {
  return new ConeGeometry(radius_m, length_m, 12).rotateZ(-0.5 * Math.PI).translate(ahead_m, 0, 0);
}

function person([x, y, z]: Vec3): BufferGeometry {
  const radius = 0.25 * (x + y);
  const trunk = new CapsuleGeometry(radius, Math.max(z - 2 * radius, 0.01), 6, 16).rotateX(0.5 * Math.PI);
  return merged([trunk, nose(0.6 * radius, 0.3 * radius, radius).translate(0, 0, 0.3 * z)]);
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
