/** The world on the page: orbit by mouse, touch and keys, follow somebody, see everything. */

import { Box3, MathUtils, PerspectiveCamera, Vector3, WebGLRenderer } from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { element, setText } from "../dom";
import type { FeedState, LiveFeed, Release } from "../feed";
import type { SceneFacts, SceneStore } from "./facts";
import { corners, distanceToSee } from "./fit";
import { Labels } from "./labels";
import { MapLayer } from "./maps";
import { onTheme, readPalette } from "./palette";
import { Stage, type WallWarning } from "./stage";
import { Tools } from "./tools";
import "./world.css";

const POSES_HZ = 30;
const PICTURES_HZ = 2;
const MOST_PIXELS_PER_PX = 2;
const FOV_Y_DEG = 45;
const FROM = new Vector3(-0.55, -0.75, 0.6).normalize();
const LEAST_M = new Vector3(2, 2, 1.5);
const LOOK_MS = 500;
const HELP = "World in 3D. Drag or Shift with arrow keys turns it, arrow keys move it, plus and minus zoom, F shows everything.";

/** Draws only when something changed and somebody can see it. */
export class WorldView {
  readonly stage = new Stage();
  readonly camera = new PerspectiveCamera(FOV_Y_DEG, 1, 0.05, 500);
  /** Pictures drawn so far. */
  drawn = 0;

  private readonly renderer: WebGLRenderer;
  private readonly orbit: OrbitControls;
  private readonly labels: Labels;
  private readonly tools: Tools;
  private readonly lost = element("p", "world-lost");
  private readonly releases: Release[] = [];
  private awake: Release[] = [];
  private visible = false;
  private due = 0;
  private framed = false;
  /** Everything is to be seen: no user chose a view. */
  private whole = true;
  private lookedMs = 0;
  private followed = "";
  private warnings: readonly WallWarning[] = [];
  private readonly mapLayer = new MapLayer(readPalette, () => this.invalidate());
  private maps: readonly string[] = [];

  /** Throws an Error, which names the cure, where the browser has no WebGL 2. */
  constructor(
    private readonly host: HTMLElement,
    private readonly feed: LiveFeed,
    store: SceneStore,
  ) {
    this.renderer = openRenderer();
    this.renderer.localClippingEnabled = true;
    const canvas = this.renderer.domElement;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", HELP);
    host.classList.add("world");
    host.append(canvas);
    this.stage.scene.add(this.mapLayer);
    this.labels = new Labels(host, this.stage.scene);
    this.tools = new Tools(host, {
      fit: () => this.fit(),
      follow: (name) => this.follow(name),
      changed: () => this.applyTools(),
    });
    this.lost.setAttribute("role", "status");
    host.append(this.lost);
    this.orbit = openOrbit(this.camera, canvas, () => this.invalidate());
    this.orbit.addEventListener("start", () => (this.whole = false));
    canvas.addEventListener("keydown", this.onKey);
    this.observe(store);
  }

  /** Light the virtual walls that the bridge warns of. */
  warn(warnings: readonly WallWarning[]): void {
    if (warnings.length === 0 && this.warnings.length === 0) return;
    this.warnings = warnings;
    this.stage.warn(warnings);
    this.invalidate();
  }

  /** Show which gate of a race comes next, and which one after it; null = none. */
  markGates(next: string | null, after: string | null): void {
    if (this.stage.markGates(next, after)) this.invalidate();
  }

  /** Show the live maps of these names. */
  showMaps(names: readonly string[]): void {
    if (names.join() === this.maps.join()) return;
    this.maps = names;
    this.tools.offerMaps(names.length > 0);
    this.wakeMaps();
  }

  /** Keep an actor in the middle; "" = none. */
  follow(name: string): void {
    this.followed = name;
    if (name !== "") this.whole = false;
    this.keepFollowing();
    this.invalidate();
  }

  /** Show everything, and go on to do so until somebody turns, moves, zooms or follows. */
  fit(): void {
    this.followed = "";
    this.tools.setFollowed("");
    this.whole = true;
    this.showWhole();
  }

  dispose(): void {
    for (const release of [...this.releases, ...this.awake]) release();
    cancelAnimationFrame(this.due);
    this.mapLayer.follow([]);
    this.orbit.dispose();
    this.stage.dispose();
    this.renderer.dispose();
    this.host.replaceChildren();
  }

  private observe(store: SceneStore): void {
    const size = new ResizeObserver(() => this.resize());
    size.observe(this.host);
    const sight = new IntersectionObserver((entries) => this.wake(entries.some((entry) => entry.isIntersecting)));
    sight.observe(this.host);
    this.releases.push(
      () => size.disconnect(),
      () => sight.disconnect(),
      store.onChange((facts) => this.build(facts)),
      this.feed.onState((state) => this.showFeed(state)),
      onTheme(() => store.facts !== null && this.build(store.facts)),
    );
  }

  private build(facts: SceneFacts): void {
    this.labels.clear();
    this.stage.build(facts, readPalette());
    this.stage.warn(this.warnings);
    if (this.feed.newest !== null) this.stage.update(this.feed.newest);
    this.tools.setActors(facts.actors.map(({ name }) => name));
    this.applyTools();
    this.tools.note(""); // what could not be shown is tried again
    this.stage
      .loadScenery()
      .then((changed) => changed && this.applyTools())
      .catch((error: Error) => this.tools.note(`The renderer's scene cannot be shown: ${error.message}`));
    this.framed &&= facts.actors.length > 0;
    this.invalidate();
  }

  /** Without poses everybody stands where he was last. */
  private showFeed(state: FeedState): void {
    const lost = state === "lost";
    this.host.classList.toggle("old", lost);
    const why = this.feed.reason && `: ${this.feed.reason}`;
    setText(this.lost, lost ? `No live poses, this is old${why}. Trying again…` : "");
  }

  /** Poses and pictures are asked for only while they can be seen. */
  private wake(visible: boolean): void {
    this.visible = visible;
    for (const release of this.awake) release();
    this.awake = [];
    this.wakeMaps();
    if (!visible) return;
    this.awake.push(this.feed.poses(POSES_HZ, (poses) => {
      this.stage.update(poses);
      this.frameOnce();
      this.keepWhole();
      this.keepFollowing();
      this.invalidate();
    }));
    if (this.tools.pictures) this.wakePictures();
    this.invalidate();
  }

  private wakeMaps(): void {
    this.mapLayer.follow(this.visible && this.tools.maps ? this.maps : []);
    this.invalidate();
  }

  private wakePictures(): void {
    for (const frustum of this.stage.frusta.values()) {
      const { name, variants } = frustum.fact;
      const variant = variants.includes("compensated") ? "compensated" : "raw";
      const take = (preview: Parameters<typeof frustum.show>[0]): void => frustum.show(preview, () => this.invalidate());
      this.awake.push(this.feed.preview(name, variant, PICTURES_HZ, take));
    }
  }

  private applyTools(): void {
    this.stage.sceneryShown = this.tools.scenery;
    this.tools.offerScenery(this.stage.hasScenery);
    for (const actor of this.stage.actors.values()) actor.trail.visible = this.tools.trails;
    for (const frustum of this.stage.frusta.values()) if (!this.tools.pictures) frustum.hide();
    this.wake(this.visible);
  }

  /** The first time that somebody is seen, everything is shown. */
  private frameOnce(): void {
    if (this.framed) return;
    this.framed = true;
    this.fit();
  }

  /** Somebody may have flown out of what was everything until then. */
  private keepWhole(): void {
    const now = performance.now();
    if (!this.whole || now - this.lookedMs < LOOK_MS) return;
    this.lookedMs = now;
    this.camera.updateMatrixWorld();
    const isOut = (point: Vector3): boolean => Math.max(...point.project(this.camera).toArray().map(Math.abs)) > 1;
    if (this.stage.outline().some(isOut)) this.showWhole();
  }

  private showWhole(): void {
    if (!this.whole) return;
    const outline = this.stage.outline();
    const place = new Box3().setFromPoints(outline).getCenter(new Vector3());
    const points = [...outline, ...corners(new Box3().setFromCenterAndSize(place, LEAST_M))];
    this.orbit.target.copy(place);
    this.camera.position.copy(place).add(FROM);
    this.camera.lookAt(place);
    const far = distanceToSee(points, place, this.camera.quaternion, MathUtils.degToRad(FOV_Y_DEG), this.camera.aspect);
    this.camera.position.copy(place).addScaledVector(FROM, far);
    this.orbit.update();
    this.invalidate();
  }

  private keepFollowing(): void {
    const body = this.stage.actors.get(this.followed)?.body;
    if (body === undefined || !body.visible) return;
    this.camera.position.sub(this.orbit.target).add(body.position);
    this.orbit.target.copy(body.position);
    this.orbit.update();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.host;
    if (clientWidth === 0 || clientHeight === 0) return;
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, MOST_PIXELS_PER_PX));
    this.renderer.setSize(clientWidth, clientHeight, false);
    this.labels.resize(clientWidth, clientHeight);
    this.camera.aspect = clientWidth / clientHeight;
    this.camera.updateProjectionMatrix();
    this.showWhole();
    cancelAnimationFrame(this.due);
    this.due = 0;
    if (this.visible) this.draw(); // at once: a canvas of a new size is empty
  }

  private invalidate(): void {
    if (this.due === 0 && this.visible) this.due = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.due = 0;
    this.labels.place(this.stage);
    this.stage.cutAway(this.camera, this.tools.cut);
    this.renderer.render(this.stage.scene, this.camera);
    this.labels.render(this.camera);
    this.drawn += 1;
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) this.whole = false; // the orbit takes these keys
    if (event.key === "f" || event.key === "F") this.fit();
    else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 0.85 : 1 / 0.85);
    else return;
    event.preventDefault();
  };

  private zoom(factor: number): void {
    this.whole = false;
    this.camera.position.sub(this.orbit.target).multiplyScalar(factor).add(this.orbit.target);
    this.orbit.update();
    this.invalidate();
  }
}

function openRenderer(): WebGLRenderer {
  try {
    return new WebGLRenderer({ antialias: true, powerPreference: "low-power" });
  } catch {
    throw new Error("this browser has no WebGL 2: switch hardware acceleration on, or read the table of actors");
  }
}

function openOrbit(camera: PerspectiveCamera, canvas: HTMLCanvasElement, changed: () => void): OrbitControls {
  camera.up.set(0, 0, 1);
  const orbit = new OrbitControls(camera, canvas);
  orbit.listenToKeyEvents(canvas);
  orbit.keyPanSpeed = 20;
  orbit.maxDistance = 200;
  orbit.minDistance = 0.3;
  orbit.addEventListener("change", changed);
  return orbit;
}
