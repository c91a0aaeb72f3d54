/** The page for a headset: its wearer sees the virtual world from the tracked head, and the others as avatars. */

import { PerspectiveCamera, Quaternion, Vector3, WebGLRenderer } from "three";
import { byId, setClass, setFacts, setText } from "./dom";
import { LiveFeed, type Poses } from "./feed";
import "./style.css";
import { Updates, type Connection } from "./updates";
import { SceneStore, type SceneFacts } from "./world/facts";
import { TrackedHead, type HeadPose } from "./world/head";
import { openSession, whyNoHeadset } from "./world/headset";
import { onTheme, readPalette } from "./world/palette";
import { Setup } from "./world/setup";
import { Signs } from "./world/signs";
import { HeadsetSpace } from "./world/space";
import { Stage } from "./world/stage";
import "./world/vr.css";
import "./world/world.css";

const POSES_HZ = 30;
const FOV_Y_DEG = 75;
const EYES_UP_M = 1.65;
const FACTS_MS = 250;
const SILENCE_MS = 1_000; // poses come 30 times a second

/** Puts the wearer's head, the world and the headset together. */
class Wearer {
  private readonly stage = new Stage();
  private readonly space = new HeadsetSpace();
  private readonly signs = new Signs(this.stage.scene);
  private readonly camera = new PerspectiveCamera(FOV_Y_DEG, 1, 0.05, 300);
  private readonly renderer: WebGLRenderer;
  private readonly setup = new Setup(() => {
    this.choose();
    if (this.setup.actor === "") this.recentre();
  });
  private facts: SceneFacts | null = null;
  private head: TrackedHead | null = null;
  private word = "";
  private heardMs = -Infinity;
  /** No poses come: where everybody was is all that is known. */
  private cut = false;
  private drawing = false;
  /** When the headset's pictures of late were drawn. */
  private drawnMs: number[] = [];

  constructor(
    private readonly host: HTMLElement,
    private readonly feed: LiveFeed,
    store: SceneStore,
  ) {
    this.renderer = new WebGLRenderer({ antialias: true });
    this.renderer.xr.enabled = true;
    this.renderer.xr.setReferenceSpaceType("local-floor");
    this.host.append(this.renderer.domElement);
    this.space.rig.add(this.camera);
    this.stage.scene.add(this.space.rig);
    store.onChange((facts) => this.build(facts));
    onTheme(() => this.facts !== null && this.build(this.facts));
    feed.poses(POSES_HZ, (poses) => this.take(poses));
    feed.onState((state) => state === "lost" && this.lose());
    new ResizeObserver(() => this.resize()).observe(host);
    byId("recentre").addEventListener("click", () => this.recentre());
    window.setInterval(() => this.tell(), FACTS_MS);
  }

  warn(warnings: Parameters<Stage["warn"]>[0]): void {
    this.stage.warn(this.cut ? [] : warnings);
  }

  /** Go into the headset. Raises what the browser gives as the reason why not. */
  async enter(ended: () => void): Promise<void> {
    const session = await openSession();
    const { xr } = this.renderer;
    const end = (): void => {
      xr.removeEventListener("sessionend", end);
      this.renderer.setAnimationLoop(null);
      this.space.forget();
      this.leave();
      ended();
    };
    xr.addEventListener("sessionend", end);
    this.renderer.setAnimationLoop((ms, frame) => this.frame(ms, frame)); // before: the session then takes it from the window
    await xr.setSession(session);
    xr.getReferenceSpace()?.addEventListener("reset", () => this.space.forget());
    this.space.forget();
  }

  private build(facts: SceneFacts): void {
    this.facts = facts;
    this.signs.clear();
    this.stage.build(facts, readPalette());
    this.setup.setActors(facts.actors);
    this.choose();
    this.stage.loadScenery().then(() => this.draw(), (error: Error) => console.warn(error.message));
  }

  /** As the form says: whose head, and where the eyes are. */
  private choose(): void {
    const index = this.facts?.actors.findIndex(({ name }) => name === this.setup.actor) ?? -1;
    const fact = this.facts?.actors[index];
    const before = this.head;
    this.head = fact === undefined ? null : new TrackedHead(fact, index, before);
    if (fact?.name !== before?.fact.name) this.recentre();
    for (const [name, actor] of this.stage.actors) actor.worn = name === fact?.name;
    for (const frustum of this.stage.frusta.values()) frustum.visible = fact === undefined || frustum.fact.actor !== fact.name;
    this.space.eyes_m.copy(this.setup.eyes_m);
    this.show();
  }

  private recentre(): void {
    this.head?.recentre();
    this.space.recentre();
    this.draw();
  }

  /** A head without tracking begins at the stated place. */
  private stand(): void {
    if (this.head !== null || this.space.settled) return;
    const { x_m, y_m, yaw_rad } = this.setup.place;
    this.space.place(x_m, y_m, yaw_rad);
  }

  private take(poses: Poses): void {
    if (poses.revision !== this.facts?.revision) return;
    this.heardMs = performance.now();
    this.cut = false;
    this.show();
  }

  private lose(): void {
    this.cut = true;
    this.space.disconnect();
    this.warn([]);
    this.show();
  }

  private show(): void {
    if (this.facts === null) return;
    const { newest } = this.feed;
    let pose: HeadPose | null = null;
    if (newest !== null && newest.revision === this.facts.revision) {
      const poses = this.cut ? allLost(newest) : newest;
      this.stage.update(poses);
      this.signs.place(this.stage, this.setup.actor, this.cut);
      pose = this.head?.read(poses) ?? null;
      if (pose !== null) this.space.align(pose, performance.now());
    }
    const why = this.cut ? "no connection" : this.head?.lack || "not tracked";
    const alone = `${why}: the headset carries on alone`;
    this.word = this.head === null ? "tracked by the headset" : pose === null ? alone : "tracked";
    this.draw();
  }

  private frame(ms: number, frame?: XRFrame): void {
    if (frame === undefined) return; // of the window, while the session begins or ends
    const reference = this.renderer.xr.getReferenceSpace();
    const viewer = reference === null ? undefined : frame.getViewerPose(reference);
    if (viewer !== undefined) {
      const { position: p, orientation: q } = viewer.transform;
      this.space.remember(ms, new Vector3(p.x, p.y, p.z), new Quaternion(q.x, q.y, q.z, q.w));
      this.stand();
    }
    this.renderer.render(this.stage.scene, this.camera);
    this.drawnMs.push(performance.now());
  }

  /** On the page, while no headset draws; however much changes, once for each picture of the window. */
  private draw(): void {
    if (this.drawing || this.renderer.xr.isPresenting || document.hidden) return;
    this.drawing = true;
    requestAnimationFrame(() => this.drawNow());
  }

  private drawNow(): void {
    this.drawing = false;
    if (this.renderer.xr.isPresenting) return;
    this.stand();
    this.camera.position.set(0, this.head === null ? EYES_UP_M : 0, 0);
    this.renderer.render(this.stage.scene, this.camera);
  }

  /** The headset has left its pose and its lens in the camera. */
  private leave(): void {
    this.camera.quaternion.identity();
    this.resize();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.host;
    if (this.renderer.xr.isPresenting || clientWidth === 0 || clientHeight === 0) return;
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.renderer.setSize(clientWidth, clientHeight, false);
    this.camera.fov = FOV_Y_DEG;
    this.camera.aspect = clientWidth / clientHeight;
    this.camera.updateProjectionMatrix();
    this.drawNow(); // at once: a canvas of a new size is empty
  }

  private tell(): void {
    if (!this.cut && performance.now() - this.heardMs > SILENCE_MS) this.lose();
    const { isPresenting } = this.renderer.xr;
    const eyes = isPresenting ? this.renderer.xr.getCamera().cameras : [this.camera];
    const at = eyes.map((eye) => new Vector3().setFromMatrixPosition(eye.matrixWorld));
    const middle = at.reduce((sum, p) => sum.addScaledVector(p, 1 / at.length), new Vector3());
    const facts: [string, string][] = [
      ["Head", this.word],
      ["Eyes at", `${middle.toArray().map((c) => c.toFixed(2)).join(", ")} m`],
      ["Views", String(eyes.length)],
    ];
    const [left, right] = at;
    if (left !== undefined && right !== undefined) {
      facts.push(["Eyes apart", `${(1e3 * left.distanceTo(right)).toFixed(0)} mm`]);
      facts.push(["Pictures", `${this.pictures()} per second`]);
    }
    setFacts(byId("facts"), facts);
  }

  /** Drawn in the last second. */
  private pictures(): number {
    const sinceMs = performance.now() - 1e3;
    this.drawnMs = this.drawnMs.filter((ms) => ms > sinceMs);
    return this.drawnMs.length;
  }
}

function allLost(poses: Poses): Poses {
  return { ...poses, actors: poses.actors.map((actor) => (actor.state === "never seen" ? actor : { ...actor, state: "lost" })) };
}

/** Say whether a headset can be used, now and whenever that changes. */
function offer(wearer: Wearer): void {
  const enter = byId<HTMLButtonElement>("enter");
  const why = byId("why");
  const say = (text: string): void => {
    why.hidden = text === "";
    setText(why, text);
  };
  const look = async (): Promise<void> => {
    const problem = await whyNoHeadset();
    enter.disabled = problem !== "";
    say(problem);
  };
  enter.addEventListener("click", () => {
    enter.disabled = true;
    wearer.enter(look).catch((error: Error) => {
      enter.disabled = false;
      say(`The headset did not start: ${error.message}`);
    });
  });
  navigator.xr?.addEventListener("devicechange", look);
  void look();
}

/** One line for both connections: poses come over the feed, warnings over the updates. */
function badge({ state, reason }: LiveFeed, updates: Connection): [text: string, look: string] {
  if (updates.state === "refused") return [`the bridge refuses this page, trying again: ${updates.why}`, "bad"];
  if (state === "lost") return [["connection to the bridge lost, trying again", reason].filter(Boolean).join(": "), "bad"];
  if (updates.state === "lost") return [`no warnings of virtual walls, trying again: ${updates.why}`, "bad"];
  return state === "live" ? ["live", "good"] : ["connecting to the bridge", ""];
}

const feed = new LiveFeed("api/v1/live", false);
const wearer = new Wearer(byId("view"), feed, new SceneStore(feed));
let updates: Connection = { state: "connecting" };
function showConnections(): void {
  const [text, look] = badge(feed, updates);
  setText(byId("feed"), text);
  setClass(byId("feed"), `badge ${look}`);
}
feed.onState(showConnections);
new Updates({
  status: (status) => wearer.warn(status.warnings),
  log: () => {},
  recording: () => {},
  connection: (connection) => {
    updates = connection;
    if (connection.state !== "live") wearer.warn([]);
    showConnections();
  },
});
offer(wearer);
