/** What makes actors visible through scenery: a pale copy of what is hidden, a ring around vehicles, a cut. */

import {
  CanvasTexture,
  GreaterDepth,
  MeshBasicMaterial,
  Plane,
  Sprite,
  SpriteMaterial,
  Vector3,
  type Material,
  type Object3D,
} from "three";

const RING_PX = 64;
/** Of the height of the picture, however far the vehicle is. */
const RING_SHARE = 0.05;
const CUT_MARGIN_M = 1;

/** Draws only what something nearer hides; before the actors themselves, which hide parts of their own. */
export function ghostMaterial(): MeshBasicMaterial {
  return new MeshBasicMaterial({ transparent: true, opacity: 0.55, depthFunc: GreaterDepth, depthWrite: false });
}

export const GHOST_ORDER = -1;

let ring: CanvasTexture | null = null;

/** A ring of constant size on the page, never hidden. */
export class Halo extends Sprite {
  constructor() {
    ring ??= drawRing();
    super(new SpriteMaterial({ map: ring, sizeAttenuation: false, depthTest: false, depthWrite: false, transparent: true }));
    this.scale.setScalar(RING_SHARE);
    this.renderOrder = 1;
  }
}

function drawRing(): CanvasTexture {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = RING_PX;
  const pen = canvas.getContext("2d")!;
  pen.strokeStyle = "#fff";
  pen.lineWidth = 0.09 * RING_PX;
  pen.arc(0.5 * RING_PX, 0.5 * RING_PX, 0.42 * RING_PX, 0, 2 * Math.PI);
  pen.stroke();
  return new CanvasTexture(canvas);
}

/** Takes scenery away that is nearer to the eye than the nearest actor. */
export class Cut {
  readonly plane = new Plane();
  private readonly ahead = new Vector3();

  /** Every material of `scenery` heeds the cut. */
  apply(scenery: Object3D, on: boolean): void {
    scenery.traverse((part) => {
      const material = (part as { material?: Material }).material;
      if (material === undefined || (material.clippingPlanes?.length === 1) === on) return;
      material.clippingPlanes = on ? [this.plane] : null;
      material.needsUpdate = true;
    });
  }

  /** Cut in front of the nearest actor, seen from `camera`. */
  place(camera: Object3D, seen: readonly Vector3[]): void {
    camera.getWorldDirection(this.ahead);
    const depths_m = seen.map((point) => this.ahead.dot(point)).sort((a, b) => a - b);
    this.plane.setComponents(this.ahead.x, this.ahead.y, this.ahead.z, CUT_MARGIN_M - (depths_m[0] ?? -Infinity));
  }
}
