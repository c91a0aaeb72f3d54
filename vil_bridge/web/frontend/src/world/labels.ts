/** Names in the world as elements of the page: sharp, of the page's font, and of no weight for the graphics card. */

import { Vector3, type Camera, type Scene } from "three";
import { CSS2DObject, CSS2DRenderer } from "three/addons/renderers/CSS2DRenderer.js";
import { element, setText } from "../dom";
import type { Stage } from "./stage";

/** The tables of the page say the same to who cannot see, so these are hidden from screen readers. */
export class Labels {
  private readonly renderer = new CSS2DRenderer();
  private readonly labels = new Map<string, CSS2DObject>();

  constructor(
    host: HTMLElement,
    private readonly scene: Scene,
  ) {
    this.renderer.domElement.className = "world-labels";
    this.renderer.domElement.setAttribute("aria-hidden", "true");
    host.append(this.renderer.domElement);
  }

  resize(width_px: number, height_px: number): void {
    this.renderer.setSize(width_px, height_px);
  }

  /** Forget all; the next `place` makes what is needed. */
  clear(): void {
    for (const label of this.labels.values()) label.removeFromParent();
    this.labels.clear();
    this.renderer.domElement.replaceChildren();
  }

  /** Put the names of rooms and actors where these are. */
  place(stage: Stage): void {
    for (const [name, room] of stage.rooms) this.put(`room ${name}`, name, "", "room", room.localToWorld(room.labelAt));
    for (const [name, actor] of stage.actors) {
      if (actor.body.visible) this.put(`actor ${name}`, name, stateWord(actor.state, actor.pose?.age_s ?? NaN), actor.state, actor.labelAt);
      else this.drop(`actor ${name}`);
    }
  }

  render(camera: Camera): void {
    this.renderer.render(this.scene, camera);
  }

  private put(key: string, name: string, word: string, state: string, at_world_m: Vector3): void {
    const label = this.labels.get(key) ?? this.make(key, name);
    label.position.copy(at_world_m);
    label.element.dataset["state"] = state;
    setText(label.element.lastElementChild as Element, word);
  }

  private make(key: string, name: string): CSS2DObject {
    const node = element("div", "world-label");
    node.append(element("b", "", name), " ", element("small"));
    const label = new CSS2DObject(node);
    label.center.set(0.5, 1);
    this.labels.set(key, label);
    this.scene.add(label);
    return label;
  }

  private drop(key: string): void {
    this.labels.get(key)?.removeFromParent();
    this.labels.delete(key);
  }
}

function stateWord(state: string, age_s: number): string {
  return state === "tracked" || Number.isNaN(age_s) ? state : `${state} ${age_s.toFixed(1)} s`;
}
