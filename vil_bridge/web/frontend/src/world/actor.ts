/** An actor in the world: its figure, the line to the floor below it, and where it has been. */

import {
  BufferGeometry,
  Float32BufferAttribute,
  Group,
  Line,
  LineDashedMaterial,
  Mesh,
  MeshLambertMaterial,
  Vector3,
  type Color,
  type Scene,
} from "three";
import type { ActorPose, SkeletonPose, TrackingState } from "../feed";
import { remove } from "./dispose";
import type { ActorFact } from "./facts";
import { actorShape } from "./figures";
import type { Palette } from "./palette";
import { ghostMaterial, GHOST_ORDER, Halo } from "./through";
import { SkeletonFigure } from "./skeleton";
import { Trail } from "./trail";

const LABEL_GAP_M = 0.18;
const OPACITY: Record<TrackingState, number> = { tracked: 1, coasting: 0.85, frozen: 0.5, stale: 0.5, lost: 0.3, "never seen": 0 };

export class ActorFigure {
  /** Posed; what the actor carries is added to it. */
  readonly body = new Group();
  readonly trail = new Trail();
  readonly skeleton: SkeletonFigure | null;
  /** Where its label stands, in the world. */
  readonly labelAt = new Vector3();
  pose: ActorPose | null = null;
  /** Somebody looks out of it: what would cover the eyes is left out. */
  worn = false;

  private readonly material = new MeshLambertMaterial({ transparent: true });
  private readonly ghost = ghostMaterial();
  private readonly halo = new Halo();
  private readonly shape: Mesh;
  private readonly plumb: Line<BufferGeometry, LineDashedMaterial>;

  constructor(
    readonly fact: ActorFact,
    private readonly palette: Palette,
  ) {
    this.shape = new Mesh(actorShape(fact), this.material);
    const hidden = new Mesh(this.shape.geometry, this.ghost);
    hidden.renderOrder = GHOST_ORDER;
    this.shape.add(hidden);
    this.body.add(this.shape);
    if (fact.kind === "vehicle") this.body.add(this.halo);
    this.skeleton =
      fact.skeleton === null ? null : new SkeletonFigure(fact.skeleton.bones, fact.skeleton.parents, this.material, this.ghost);
    const line = new BufferGeometry().setAttribute("position", new Float32BufferAttribute(new Float32Array(6), 3));
    this.plumb = new Line(line, new LineDashedMaterial({ dashSize: 0.06, gapSize: 0.06, transparent: true, opacity: 0.6 }));
    this.plumb.frustumCulled = false;
    this.hide();
  }

  get state(): TrackingState {
    return this.pose?.state ?? "never seen";
  }

  addTo(scene: Scene): void {
    scene.add(this.body, this.trail, this.plumb);
    if (this.skeleton !== null) scene.add(this.skeleton);
  }

  remove(): void {
    for (const part of [this.body, this.trail, this.plumb, this.skeleton]) if (part !== null) remove(part);
  }

  /** A skeleton stands for the shape; a pose that is not known shows nothing. */
  update(pose: ActorPose, skeleton: SkeletonPose | undefined): void {
    this.pose = pose;
    if (pose.state === "never seen") {
      this.hide();
      return;
    }
    const colour = this.palette.states[pose.state];
    for (const material of [this.material, this.ghost, this.halo.material]) material.color.copy(colour);
    this.halo.visible = !this.worn;
    this.material.opacity = OPACITY[pose.state];
    this.material.depthWrite = pose.state === "tracked" || pose.state === "coasting";
    this.body.visible = true;
    this.body.position.fromArray(pose.p_world_m);
    this.body.quaternion.fromArray(pose.q_xyzw);
    const boned = this.skeleton !== null && skeleton !== undefined;
    this.shape.visible = !boned && !this.worn;
    if (this.skeleton !== null) this.skeleton.visible = boned;
    if (boned) this.skeleton.pose(skeleton.bones, this.worn);
    this.labelAt.copy(this.body.position).setZ(this.top(skeleton) + LABEL_GAP_M);
    this.drop(colour);
    if (pose.state === "lost" || this.worn) this.trail.forget();
    else this.trail.step(this.body.position, colour);
  }

  private top(skeleton: SkeletonPose | undefined): number {
    if (skeleton === undefined || this.skeleton === null) return this.body.position.z + 0.5 * this.fact.size_m[2];
    let top = -Infinity;
    for (let i = 2; i < skeleton.bones.length; i += 7) top = Math.max(top, skeleton.bones[i] as number);
    return top + LABEL_GAP_M;
  }

  private drop(colour: Color): void {
    this.plumb.visible = this.fact.kind === "vehicle" && !this.worn;
    this.plumb.material.color.copy(colour);
    const p = this.plumb.geometry.getAttribute("position");
    const { x, y, z } = this.body.position;
    p.setXYZ(0, x, y, z);
    p.setXYZ(1, x, y, 0);
    p.needsUpdate = true;
    this.plumb.computeLineDistances();
  }

  private hide(): void {
    this.body.visible = this.plumb.visible = false;
    if (this.skeleton !== null) this.skeleton.visible = false;
    this.trail.forget();
  }
}
