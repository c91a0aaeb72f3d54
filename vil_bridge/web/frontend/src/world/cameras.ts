/** A virtual camera: its frustum, and at its end what it sees. */

import {
  BufferGeometry,
  Float32BufferAttribute,
  Group,
  LineBasicMaterial,
  LinearFilter,
  LineSegments,
  Mesh,
  MeshBasicMaterial,
  SRGBColorSpace,
  Texture,
} from "three";
import type { Preview } from "../feed";
import { type CameraFact, patienceMs } from "./facts";
import type { Palette } from "./palette";

const DEPTH_M = 0.5;
const PERIOD_MS = 400;

/** In the frame of the actor that carries it. */
export class Frustum extends Group {
  private readonly screen: Mesh<BufferGeometry, MeshBasicMaterial>;
  private shownMs = -PERIOD_MS;
  private decoding = false;
  private fading = 0;

  constructor(
    readonly fact: CameraFact,
    palette: Palette,
  ) {
    super();
    this.position.fromArray(fact.p_m);
    this.quaternion.fromArray(fact.q_xyzw);
    const z = DEPTH_M * Math.tan(0.5 * fact.fov_y_rad);
    const y = (z * fact.width) / fact.height;
    const corners = [DEPTH_M, y, z, DEPTH_M, -y, z, DEPTH_M, -y, -z, DEPTH_M, y, -z];
    const lines = new BufferGeometry().setAttribute("position", new Float32BufferAttribute([0, 0, 0, ...corners], 3));
    lines.setIndex([0, 1, 0, 2, 0, 3, 0, 4, 1, 2, 2, 3, 3, 4, 4, 1]);
    const plane = new BufferGeometry().setAttribute("position", new Float32BufferAttribute(corners, 3));
    plane.setAttribute("uv", new Float32BufferAttribute([0, 0, 1, 0, 1, 1, 0, 1], 2));
    plane.setIndex([0, 2, 1, 0, 3, 2]);
    this.screen = new Mesh(plane, new MeshBasicMaterial({ side: 2, toneMapped: false }));
    this.screen.visible = false;
    this.add(new LineSegments(lines, new LineBasicMaterial({ color: palette.camera })), this.screen);
  }

  /** Take a picture, unless the last one is too new; `shown` is called when it can be seen, or no longer. */
  show(preview: Preview, shown: () => void): void {
    if (preview.header.blank) {
      this.hide();
      shown();
      return;
    }
    const now = performance.now();
    if (this.decoding || now - this.shownMs < PERIOD_MS) return;
    this.decoding = true;
    clearTimeout(this.fading);
    this.fading = window.setTimeout(() => { // an old picture is never shown as new
      this.hide();
      shown();
    }, patienceMs(this.fact));
    this.shownMs = now;
    createImageBitmap(preview.jpeg)
      .then((bitmap) => {
        this.paint(bitmap);
        shown();
      })
      .catch(() => this.hide())
      .finally(() => (this.decoding = false));
  }

  hide(): void {
    this.screen.visible = false;
  }

  /** Bitmaps come with the top row first, and so do our texture coordinates. */
  private paint(bitmap: ImageBitmap): void {
    const material = this.screen.material;
    material.map?.dispose();
    if (material.map === null) material.needsUpdate = true;
    const texture = new Texture(bitmap);
    texture.colorSpace = SRGBColorSpace;
    texture.flipY = false;
    texture.generateMipmaps = false;
    texture.minFilter = LinearFilter;
    texture.needsUpdate = true;
    texture.addEventListener("dispose", () => bitmap.close());
    material.map = texture;
    this.screen.visible = true;
  }
}
