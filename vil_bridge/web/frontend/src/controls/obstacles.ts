// Obstacles that renderers draw: put one into the world, take it away.

import { ask, part } from "../api";
import { element, setChildren } from "../dom";
import { number } from "../format";
import { fromYpr, type Quaternion } from "../rotation";
import { field, Group, numberInput, submit, textInput, valueOf } from "./group";

interface Prop {
  p_m: [number, number, number];
  q_xyzw: Quaternion;
  size_m: [number, number, number];
  prefab: string;
}

type Three = [number, number, number];

export class Obstacles extends Group {
  private readonly name = textInput("box1", "[a-z][a-z0-9_\\-]*");
  private readonly prefab = textInput("a box");
  private readonly place = [2, 0, 1].map((value) => numberInput(value, { step: "any" }));
  private readonly size = [0.5, 0.5, 2].map((value) => numberInput(value, { min: 0.001, step: "any" }));
  private readonly yaw = numberInput(0, { min: -180, max: 180, step: "any" });
  private readonly list = element("ul", "files");
  private readonly empty = element("p", "empty", "No obstacle yet. Name one and add it to the world.");

  constructor() {
    super("Obstacles", () => void this.attempt(() => this.load()));
    this.name.required = true;
    this.name.maxLength = 64;
    this.name.title = "Name: lower-case letters, digits, _ and -, beginning with a letter.";
    const axes = (inputs: HTMLInputElement[], what: string): Node[] => inputs.map((input, i) => field(`${what} ${"xyz"[i]}`, input, "m"));
    this.form(
      [field("Name", this.name), field("Model", this.prefab), ...axes(this.place, "at"), field("yaw", this.yaw, "°"), ...axes(this.size, "size"), submit("Put")],
      () => this.put(),
    );
    this.body.append(this.list, this.empty);
  }

  private async load(): Promise<void> {
    const props = await ask<Record<string, Prop>>("GET", "props");
    const names = Object.keys(props);
    this.brief.textContent = names.length > 0 ? String(names.length) : "";
    this.empty.hidden = names.length > 0;
    for (const item of setChildren(this.list, names, (name) => this.makeItem(name))) {
      const { p_m } = props[item.dataset.name!]!;
      item.querySelector(".quiet")!.textContent = `at ${p_m.map((m) => number(m, "m", 2)).join(", ")}`;
    }
  }

  private makeItem(name: string): HTMLElement {
    const item = element("li");
    const remove = this.button("Remove", async () => {
      await ask("DELETE", `props/${part(name)}`);
      await this.load();
    });
    remove.setAttribute("aria-label", `Take ${name} away`);
    item.append(element("span", "strong", name), element("span", "quiet"), remove);
    return item;
  }

  private async put(): Promise<void> {
    const prop: Prop = {
      p_m: this.place.map(valueOf) as Three,
      q_xyzw: fromYpr(valueOf(this.yaw), 0, 0),
      size_m: this.size.map(valueOf) as Three,
      prefab: this.prefab.value.trim(),
    };
    await ask("PUT", `props/${part(this.name.value)}`, prop);
    await this.load();
  }
}
