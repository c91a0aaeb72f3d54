// One preview: the picture on a canvas, and over it which frame it is, how old, and how far it was turned.

import { element, setFacts, setText } from "../dom";
import type { LiveFeed, Preview, PreviewHeader, Release, Variant } from "../feed";
import { degrees, duration, number } from "../format";

const RATE_HZ = 10;
const OLD_MS = 1500;
const LOOK_MS = 500;
const TITLES: Record<Variant, string> = { raw: "raw", compensated: "compensated" };

export class Picture {
  readonly node = element("figure", "picture");
  private readonly canvas = element("canvas");
  private readonly overlay = element("dl", "overlay");
  private readonly note = element("p", "picture-note", "no picture yet");
  private readonly release: Release;
  private readonly timer: number;
  private decoding = false;
  private seenMs: number | null = null;
  private patienceMs = OLD_MS;
  private blank = false;

  constructor(feed: LiveFeed, readonly camera: string, readonly variant: Variant) {
    const caption = element("figcaption", "", `${camera}, ${TITLES[variant]}`);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `newest picture of ${camera}, ${TITLES[variant]}`);
    this.node.dataset.variant = variant;
    this.node.dataset.camera = camera;
    this.node.append(this.canvas, this.note, this.overlay, caption);
    this.release = feed.preview(camera, variant, RATE_HZ, (preview) => void this.take(preview));
    this.timer = window.setInterval(() => this.look(), LOOK_MS);
  }

  close(): void {
    this.release();
    clearInterval(this.timer);
    this.node.remove();
  }

  /** Draw the newest; what comes while one is being decoded is passed over. */
  private async take({ header, jpeg }: Preview): Promise<void> {
    if (this.decoding) return;
    this.decoding = true;
    try {
      const bitmap = await createImageBitmap(jpeg);
      if (this.canvas.width !== bitmap.width) this.canvas.width = bitmap.width;
      if (this.canvas.height !== bitmap.height) this.canvas.height = bitmap.height;
      this.canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
      bitmap.close();
      const now = performance.now();
      if (this.seenMs !== null) this.patienceMs = Math.max(OLD_MS, 3 * Math.min(now - this.seenMs, 10 * OLD_MS));
      this.seenMs = now;
      this.tell(header);
    } catch {
      setText(this.note, "a picture that cannot be shown came");
    } finally {
      this.decoding = false;
    }
  }

  private tell(header: PreviewHeader): void {
    this.blank = header.blank;
    this.note.hidden = !this.blank;
    if (this.blank) setText(this.note, "black on purpose: its carrier is lost");
    setFacts(this.overlay, [
      ["frame", this.blank ? "none" : String(header.frame_id)],
      ["age", duration(header.age_s)],
      ["warp", this.variant === "raw" ? "none" : number(degrees(header.angle_rad), "°", 2)],
    ]);
  }

  /** An old picture is never shown as new; a slow camera may take its time. */
  private look(): void {
    if (this.seenMs === null) return;
    const silent = performance.now() - this.seenMs;
    const old = silent >= this.patienceMs;
    this.note.hidden = !old && !this.blank;
    if (old) setText(this.note, `old: no picture for ${duration(silent / 1e3)}`);
  }
}
