/** Names above actors inside the picture, for eyes that see nothing of the page around it. */

import { CanvasTexture, Sprite, SpriteMaterial, SRGBColorSpace, type Scene } from "three";
import { remove } from "./dispose";
import type { Stage } from "./stage";

const WIDTH_PX = 512;
const HEIGHT_PX = 96;
const HEIGHT_M = 0.14;

class Sign extends Sprite {
  private text = "";
  private readonly canvas = document.createElement("canvas");
  private readonly picture = new CanvasTexture(this.canvas);

  constructor() {
    super(new SpriteMaterial({ depthWrite: false }));
    this.canvas.width = WIDTH_PX;
    this.canvas.height = HEIGHT_PX;
    this.picture.colorSpace = SRGBColorSpace;
    this.material.map = this.picture;
    this.scale.set((HEIGHT_M * WIDTH_PX) / HEIGHT_PX, HEIGHT_M, 1);
    this.center.set(0.5, 0);
  }

  write(text: string, colour: string): void {
    if (text === this.text) return;
    this.text = text;
    const paint = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    paint.clearRect(0, 0, WIDTH_PX, HEIGHT_PX);
    paint.font = `600 ${HEIGHT_PX * 0.55}px system-ui, sans-serif`;
    paint.textAlign = "center";
    paint.textBaseline = "middle";
    paint.lineWidth = 10;
    paint.lineJoin = "round";
    paint.strokeStyle = "#000c";
    paint.strokeText(text, WIDTH_PX / 2, HEIGHT_PX / 2, WIDTH_PX - 20);
    paint.fillStyle = colour;
    paint.fillText(text, WIDTH_PX / 2, HEIGHT_PX / 2, WIDTH_PX - 20);
    this.picture.needsUpdate = true;
  }
}

export class Signs {
  private readonly signs = new Map<string, Sign>();

  constructor(private readonly scene: Scene) {}

  /** Put a sign above everybody who can be seen but `wearer`; who is not tracked, or cut off, has the word on it. */
  place(stage: Stage, wearer: string, cut: boolean): void {
    for (const [name, actor] of stage.actors) {
      const shown = actor.body.visible && name !== wearer;
      const sign = this.signs.get(name) ?? this.make(name);
      sign.visible = shown;
      if (!shown) continue;
      sign.position.copy(actor.labelAt);
      const word = cut ? "no connection" : actor.state;
      sign.write(word === "tracked" ? name : `${name}: ${word}`, word === "tracked" ? "#fff" : "#fde047");
    }
  }

  clear(): void {
    for (const sign of this.signs.values()) remove(sign);
    this.signs.clear();
  }

  private make(name: string): Sign {
    const sign = new Sign();
    this.signs.set(name, sign);
    this.scene.add(sign);
    return sign;
  }
}
