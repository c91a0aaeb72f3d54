// What the vehicle sees: of the chosen camera, or of all, the picture as rendered next to the one that is sent.

import { byId, element, setText } from "../dom";
import type { LiveFeed, Variant } from "../feed";
import type { GatesAhead } from "../race/course";
import type { Camera } from "../status";
import { type CameraFact, patienceMs } from "../world/facts";
import { Picture } from "./picture";

const ALL = "all";
const MOST = 8;
const ORDER: Variant[] = ["raw", "compensated"];

export class Pictures {
  private readonly choice = element("fieldset", "choice");
  private readonly holder = element("div", "pictures");
  private readonly note = element("p", "quiet");
  /** By camera and variant: one that is not shown keeps its last picture, and knows its age. */
  private readonly pictures = new Map<string, Picture>();
  private cameras: CameraFact[] = [];
  private chosen: string | null = null;

  /** `choose` is given the chosen camera at each choice; null = all, or none. */
  constructor(host: HTMLElement, private readonly feed: LiveFeed, private readonly choose: (camera: string | null) => void) {
    host.append(this.choice, this.holder, this.note);
    new IntersectionObserver(([entry]) => this.show(entry!.isIntersecting)).observe(host);
  }

  private visible = false;

  /** Say why a camera's pictures stopped. */
  explain(cameras: Record<string, Camera>): void {
    for (const picture of this.pictures.values()) picture.problem = cameras[picture.camera]?.problem ?? "";
  }

  /** Mark the gates of a race in the pictures of each racer's cameras: those before an actor. */
  markGates(ahead: (actor: string) => GatesAhead): void {
    const actors = new Map(this.cameras.map((camera) => [camera.name, camera.actor]));
    for (const picture of this.pictures.values()) picture.gates = ahead(actors.get(picture.camera) ?? "");
  }

  /** Offer these; `first` is shown until somebody chooses. */
  setCameras(cameras: CameraFact[], first: string | null): void {
    byId("pictures-empty").hidden = cameras.length > 0;
    const before = kinds(this.cameras);
    this.cameras = cameras;
    if (kinds(cameras) === before) return; // a moved mount does not take the focus
    const names = cameras.map((camera) => camera.name);
    if (this.chosen === null || !(names.includes(this.chosen) || (this.chosen === ALL && names.length > 1))) {
      this.chosen = first;
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
    const wanted = this.cameras.filter((camera) => this.chosen === ALL || camera.name === this.chosen);
    const pairs = wanted.flatMap((camera) => ORDER.filter((v) => camera.variants.includes(v)).map((v) => [camera, v] as const));
    setText(this.note, pairs.length > MOST ? `${MOST} of ${pairs.length} pictures: choose a camera to see the others.` : "");
    const shown = pairs.slice(0, MOST).map(([camera, variant]) => this.picture(camera, variant));
    for (const picture of this.pictures.values()) picture.watch(this.visible && shown.includes(picture));
    this.holder.replaceChildren(...shown.map((picture) => picture.node));
    this.choose(this.chosen === ALL ? null : this.chosen);
    this.holder.classList.toggle("single", pairs.length === 1);
  }

  private picture(camera: CameraFact, variant: Variant): Picture {
    const key = `${variant} ${camera.name}`;
    const found = this.pictures.get(key) ?? new Picture(this.feed, camera.name, variant, patienceMs(camera));
    found.patienceMs = patienceMs(camera);
    this.pictures.set(key, found);
    return found;
  }
}

function kinds(cameras: CameraFact[]): string {
  return cameras.map((camera) => [camera.name, camera.rate_hz, ...camera.variants].join(" ")).join("\n");
}
