// What the vehicle sees: of the chosen camera, or of all, the picture as rendered beside the one that goes out.

import { byId, element, setText } from "../dom";
import type { LiveFeed, Variant } from "../feed";
import type { CameraFact } from "../world/facts";
import { Picture } from "./picture";

const ALL = "all";
const MOST = 8;
const ORDER: Variant[] = ["raw", "compensated"];

export class Pictures {
  private readonly choice = element("fieldset", "choice");
  private readonly holder = element("div", "pictures");
  private readonly note = element("p", "quiet");
  private pictures: Picture[] = [];
  private cameras: CameraFact[] = [];
  private chosen: string | null = null;

  constructor(host: HTMLElement, private readonly feed: LiveFeed) {
    host.append(this.choice, this.holder, this.note);
    new IntersectionObserver(([entry]) => this.show(entry!.isIntersecting)).observe(host);
  }

  private visible = false;

  setCameras(cameras: CameraFact[]): void {
    byId("pictures-empty").hidden = cameras.length > 0;
    const before = kinds(this.cameras);
    this.cameras = cameras;
    if (kinds(cameras) === before) return; // a moved mount takes nobody's focus
    const names = cameras.map((camera) => camera.name);
    if (this.chosen === null || !(names.includes(this.chosen) || (this.chosen === ALL && names.length > 1))) {
      this.chosen = names[0] ?? null;
    }
    this.offer(names.length > 1 ? [...names, ALL] : []);
    this.restart();
  }

  private offer(names: string[]): void {
    const legend = element("legend", "hidden", "Camera");
    this.choice.replaceChildren(legend, ...names.map((name) => {
      const label = element("label");
      const radio = Object.assign(element("input"), { type: "radio", name: "camera", value: name, checked: name === this.chosen });
      radio.addEventListener("change", () => {
        this.chosen = name;
        this.restart();
      });
      label.append(radio, name);
      return label;
    }));
    this.choice.hidden = names.length === 0;
  }

  private show(visible: boolean): void {
    if (visible === this.visible) return;
    this.visible = visible;
    this.restart();
  }

  /** Previews are made only for those who look. */
  private restart(): void {
    for (const picture of this.pictures) picture.close();
    const wanted = this.cameras.filter((camera) => this.chosen === ALL || camera.name === this.chosen);
    const pairs = wanted.flatMap((camera) => ORDER.filter((v) => camera.variants.includes(v)).map((v) => [camera.name, v] as const));
    setText(this.note, pairs.length > MOST ? `${MOST} of ${pairs.length} pictures: choose a camera to see the others.` : "");
    this.pictures = this.visible ? pairs.slice(0, MOST).map(([name, variant]) => new Picture(this.feed, name, variant)) : [];
    this.holder.replaceChildren(...this.pictures.map((picture) => picture.node));
    this.holder.classList.toggle("single", pairs.length === 1);
  }
}

function kinds(cameras: CameraFact[]): string {
  return cameras.map((camera) => [camera.name, ...camera.variants].join(" ")).join("\n");
}
