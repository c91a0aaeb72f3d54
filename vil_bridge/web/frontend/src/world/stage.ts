/** The world as a three.js scene, for any viewer: z up, metres. It knows no camera and no page. */

import {
  Box3,
  DirectionalLight,
  GridHelper,
  Group,
  HemisphereLight,
  LineBasicMaterial,
  Object3D,
  Scene,
  Vector3,
} from "three";
import type { Poses } from "../feed";
import { ActorFigure } from "./actor";
import { axes } from "./axes";
import { Frustum } from "./cameras";
import { remove } from "./dispose";
import type { PoseFact, SceneFacts } from "./facts";
import { corners } from "./fit";
import { crate } from "./figures";
import { Gates } from "./gates";
import { loadModel } from "./model";
import type { Palette } from "./palette";
import { Room } from "./rooms";
import { Cut } from "./through";

Object3D.DEFAULT_UP.set(0, 0, 1);

/** A warning of virtual walls, as the status has it. */
export interface WallWarning {
  kind: string;
  actors: readonly string[];
  rooms: readonly string[];
}

const WORLD = "world";
const GRID_MARGIN_M = 5;
const LEAST_GRID_M = 10;

export class Stage {
  readonly scene = new Scene();
  readonly rooms = new Map<string, Room>();
  readonly actors = new Map<string, ActorFigure>();
  readonly frusta = new Map<string, Frustum>();

  private readonly fixed = new Group();
  private readonly scenery = new Group();
  private readonly cut = new Cut();
  private facts: SceneFacts | null = null;
  private gates: Gates | null = null;
  private marked: [next: string | null, after: string | null] = [null, null];
  private modelUrl: string | null = null;

  constructor() {
    this.scene.add(this.fixed, this.scenery);
  }

  /** Build everything again; the newest poses have to follow. The model stays while its address does. */
  build(facts: SceneFacts, palette: Palette): void {
    this.clear();
    this.facts = facts;
    this.scene.background = palette.ground;
    const sun = new DirectionalLight(palette.light, 1.6);
    sun.position.set(-2, 3, 6);
    this.fixed.add(new HemisphereLight(palette.light, palette.shade, 1.8), sun, sun.target, axes(1));
    for (const [name, fact] of Object.entries(facts.rooms)) {
      const room = new Room(fact, palette);
      this.rooms.set(name, room);
      this.fixed.add(room);
    }
    for (const fact of facts.actors) {
      const figure = new ActorFigure(fact, palette);
      this.actors.set(fact.name, figure);
      figure.addTo(this.scene);
    }
    this.gates = new Gates(facts, palette);
    this.gates.mark(...this.marked);
    this.fixed.add(this.gates);
    for (const prop of facts.props) this.place(crate(prop.size_m, palette.thing, palette.camera), prop);
    for (const camera of facts.cameras) {
      const frustum = new Frustum(camera, palette);
      this.frusta.set(camera.name, frustum);
      (this.actors.get(camera.actor)?.body ?? this.fixed).add(frustum);
    }
    this.fixed.add(this.grid(palette));
  }

  /** Poses of another revision are left out: their indices would be wrong. */
  update(poses: Poses): void {
    if (this.facts === null || poses.revision !== this.facts.revision) return;
    const skeletons = new Map(poses.skeletons.map((skeleton) => [skeleton.index, skeleton]));
    for (const pose of poses.actors) {
      const fact = this.facts.actors[pose.index];
      if (fact !== undefined) this.actors.get(fact.name)?.update(pose, skeletons.get(pose.index));
    }
  }

  /** Show which gate comes next and which one after it; true if that is new. */
  markGates(next: string | null, after: string | null): boolean {
    if (this.marked[0] === next && this.marked[1] === after) return false;
    this.marked = [next, after];
    this.gates?.mark(next, after);
    return true;
  }

  /** Light the walls that the warnings are about. */
  warn(warnings: readonly WallWarning[]): void {
    for (const [name, room] of this.rooms) {
      const mine = warnings.filter((warning) => warning.rooms.includes(name));
      const leaving = mine.filter(({ kind }) => kind === "leaving").flatMap(({ actors }) => actors);
      const near = leaving.flatMap((actor) => this.actors.get(actor)?.body.position ?? []);
      room.light(near, mine.length > 0);
    }
  }

  /** Load the renderer's geometry, if there is one; true once it stands. What fails is tried again by the next call. */
  async loadScenery(): Promise<boolean> {
    const url = this.facts?.model ?? null;
    if (url === this.modelUrl) return false;
    this.modelUrl = url;
    for (const old of [...this.scenery.children]) remove(old);
    if (url === null) return true;
    try {
      const model = await loadModel(url);
      if (this.modelUrl === url) this.scenery.add(model);
    } catch (error) {
      if (this.modelUrl !== url) return false; // no viewer wants it any more
      this.modelUrl = null;
      throw error;
    }
    return this.modelUrl === url;
  }

  set sceneryShown(shown: boolean) {
    this.scenery.visible = shown;
  }

  /** Take scenery away between the eye and the nearest actor; to be asked before each picture. */
  cutAway(camera: Object3D, on: boolean): void {
    const seen = [...this.actors.values()].filter((actor) => actor.body.visible).map((actor) => actor.body.position);
    this.cut.apply(this.scenery, on && seen.length > 0);
    if (on) this.cut.place(camera, seen);
  }

  get hasScenery(): boolean {
    return this.scenery.children.length > 0;
  }

  /** What somebody who looks should see: rooms, gates, things, cameras, and everybody who was ever seen. */
  outline(): Vector3[] {
    const seen = [...this.actors.values()].filter((actor) => actor.body.visible);
    const stands = ({ fact }: Frustum): boolean => fact.actor === WORLD || this.actors.get(fact.actor)?.body.visible === true;
    const solid = [...this.rooms.values(), ...[...this.frusta.values()].filter(stands)];
    const places = [...(this.facts?.gates ?? []), ...(this.facts?.props ?? [])].map(({ p_m }) => new Vector3(...p_m));
    return [...solid.flatMap(outlineOf), ...places, ...seen.flatMap((actor) => [actor.body.position.clone(), actor.labelAt.clone()])];
  }

  clear(): void {
    for (const actor of this.actors.values()) actor.remove();
    for (const part of [...this.fixed.children]) remove(part);
    for (const map of [this.actors, this.frusta, this.rooms]) map.clear();
  }

  dispose(): void {
    this.clear();
    for (const part of [...this.scenery.children]) remove(part);
  }

  private place(object: Object3D, { p_m, q_xyzw }: PoseFact): void {
    object.position.fromArray(p_m);
    object.quaternion.fromArray(q_xyzw);
    this.fixed.add(object);
  }

  /** Squares of 1 m on the floor, under everything. */
  private grid(palette: Palette): GridHelper {
    const { min, max } = new Box3().setFromPoints(this.outline());
    const reach = Math.max(LEAST_GRID_M, ...[min.x, min.y, max.x, max.y].map((side) => (isFinite(side) ? Math.abs(side) : 0)));
    const side = 2 * Math.ceil(reach + GRID_MARGIN_M);
    const grid = new GridHelper(side, side, palette.room, palette.grid).rotateX(0.5 * Math.PI);
    (grid.material as LineBasicMaterial).depthWrite = false;
    return grid;
  }
}

function outlineOf(object: Object3D): Vector3[] {
  object.updateWorldMatrix(true, true);
  return corners(new Box3().setFromObject(object));
}
