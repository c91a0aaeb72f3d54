// The gates ahead over a picture: the next one with its outline, or an arrow to it; the one after it, thin.

import { element } from "../dom";
import type { PreviewHeader } from "../feed";
import { number } from "../format";
import type { GateFact } from "../world/facts";
import type { GatesAhead } from "./course";
import { type Point, type SeenGate, seenGate } from "./projection";

const NEXT = "#4ade80";
const WRONG_SIDE = "#fb923c";
const AFTER = "#e2e8f0";
const SHADOW = "rgb(8 12 16 / 0.75)";
const ARROW_PLACE = 0.72; // of the way from the middle to the border

/** A canvas that lies over the one with the picture. It is drawn here: the vehicle gets pictures without it. */
export class GateOverlay {
  readonly node = element("canvas", "gate-overlay");

  constructor() {
    this.node.setAttribute("aria-hidden", "true");
  }

  /** Draw over the picture that `header` belongs to. */
  draw(header: PreviewHeader, { next, after }: GatesAhead): void {
    if (this.node.width !== header.width) this.node.width = header.width;
    if (this.node.height !== header.height) this.node.height = header.height;
    const pen = this.node.getContext("2d");
    if (pen === null) return;
    pen.clearRect(0, 0, header.width, header.height);
    pen.lineJoin = pen.lineCap = "round";
    const unit = header.height / 240;
    if (after !== null) this.outline(pen, seenGate(after, header), AFTER, unit, [6 * unit, 6 * unit]);
    if (next !== null) this.next(pen, next, seenGate(next, header), header, unit);
  }

  clear(): void {
    this.node.getContext("2d")?.clearRect(0, 0, this.node.width, this.node.height);
  }

  private next(pen: CanvasRenderingContext2D, gate: GateFact, seen: SeenGate | null, header: PreviewHeader, unit: number): void {
    if (seen === null) return;
    const colour = seen.isBehind ? WRONG_SIDE : NEXT;
    this.outline(pen, seen, colour, 2 * unit, seen.isBehind ? [3 * unit, 5 * unit] : []);
    const words = `${gate.name}  ${number(seen.distance_m, "m", 0)}${seen.isBehind ? "  from the other side" : ""}`;
    if (seen.middle !== null) {
      const top = Math.min(...seen.outline.map(([, y]) => y));
      label(pen, words, [seen.middle[0], Math.max(top - 6 * unit, 14 * unit)], colour, unit, header.width);
      return;
    }
    const [x, y] = seen.towards;
    const middle: Point = [0.5 * header.width, 0.5 * header.height];
    const reach = ARROW_PLACE / Math.max(Math.abs(x) / middle[0], Math.abs(y) / middle[1]);
    const at: Point = [middle[0] + reach * x, middle[1] + reach * y];
    arrow(pen, at, Math.atan2(y, x), colour, unit);
    label(pen, words, [at[0], at[1] + 24 * unit], colour, unit, header.width);
  }

  private outline(pen: CanvasRenderingContext2D, seen: SeenGate | null, colour: string, width: number, dashes: number[]): void {
    if (seen === null || seen.outline.length < 3) return;
    const path = new Path2D();
    seen.outline.forEach(([x, y], i) => (i === 0 ? path.moveTo(x, y) : path.lineTo(x, y)));
    path.closePath();
    pen.setLineDash([]);
    pen.strokeStyle = SHADOW;
    pen.lineWidth = 2 * width;
    pen.stroke(path);
    pen.setLineDash(dashes);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.stroke(path);
    pen.setLineDash([]);
  }
}

function arrow(pen: CanvasRenderingContext2D, [x, y]: Point, angle_rad: number, colour: string, unit: number): void {
  pen.save();
  pen.translate(x, y);
  pen.rotate(angle_rad);
  pen.beginPath();
  pen.moveTo(14 * unit, 0);
  pen.lineTo(-8 * unit, -11 * unit);
  pen.lineTo(-3 * unit, 0);
  pen.lineTo(-8 * unit, 11 * unit);
  pen.closePath();
  pen.fillStyle = colour;
  pen.strokeStyle = SHADOW;
  pen.lineWidth = 2 * unit;
  pen.stroke();
  pen.fill();
  pen.restore();
}

function label(pen: CanvasRenderingContext2D, words: string, [x, y]: Point, colour: string, unit: number, width: number): void {
  pen.font = `600 ${11 * unit}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "alphabetic";
  const half = 0.5 * pen.measureText(words).width + 4 * unit;
  const middle = Math.min(Math.max(x, half), width - half);
  pen.lineWidth = 3 * unit;
  pen.strokeStyle = SHADOW;
  pen.strokeText(words, middle, y);
  pen.fillStyle = colour;
  pen.fillText(words, middle, y);
}
