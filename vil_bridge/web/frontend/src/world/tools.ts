/** The few buttons over the world. */

import { element, setText } from "../dom";

export interface ToolHooks {
  fit: () => void;
  follow: (name: string) => void;
  changed: () => void;
}

export class Tools {
  private readonly followed = element("select");
  private readonly switches: Record<"trails" | "pictures" | "maps" | "scenery" | "cut", HTMLButtonElement>;
  private readonly remark = element("p", "world-note");

  constructor(
    host: HTMLElement,
    private readonly hooks: ToolHooks,
  ) {
    const bar = element("div", "world-tools");
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "World");
    this.followed.setAttribute("aria-label", "Follow");
    this.followed.addEventListener("change", () => hooks.follow(this.followed.value));
    const fit = element("button", "", "Show all");
    fit.type = "button";
    fit.addEventListener("click", hooks.fit);
    this.switches = { trails: this.toggle("Trails"), pictures: this.toggle("Pictures"), maps: this.toggle("Maps"), scenery: this.toggle("Scenery"), cut: this.toggle("Cut away") };
    bar.append(this.followed, fit, ...Object.values(this.switches));
    host.append(bar, this.remark);
    this.setActors([]);
    this.offerMaps(false);
  }

  get trails(): boolean {
    return isOn(this.switches.trails);
  }

  get pictures(): boolean {
    return isOn(this.switches.pictures);
  }

  get maps(): boolean {
    return isOn(this.switches.maps);
  }

  get scenery(): boolean {
    return isOn(this.switches.scenery);
  }

  /** Scenery in front of the actors is left out. */
  get cut(): boolean {
    return isOn(this.switches.cut);
  }

  /** Offer these to be followed; who is followed stays so while there. */
  setActors(names: readonly string[]): void {
    const now = this.followed.value;
    this.followed.replaceChildren(new Option("Follow no actor", ""), ...names.map((name) => new Option(`Follow ${name}`, name)));
    this.setFollowed(names.includes(now) ? now : "");
  }

  setFollowed(name: string): void {
    this.followed.value = name;
  }

  offerMaps(there: boolean): void {
    this.switches.maps.hidden = !there;
  }

  offerScenery(there: boolean): void {
    this.switches.scenery.hidden = this.switches.cut.hidden = !there;
  }

  /** Say something at the lower edge; "" = nothing. */
  note(text: string): void {
    setText(this.remark, text);
  }

  private toggle(name: string): HTMLButtonElement {
    const button = element("button", "", name);
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!isOn(button)));
      this.hooks.changed();
    });
    return button;
  }
}

function isOn(button: HTMLButtonElement): boolean {
  return button.getAttribute("aria-pressed") === "true";
}
