// The operator's page: puts the parts together.

import "uplot/dist/uPlot.min.css";
import "./style.css";

import { ask } from "./api";
import { Controls } from "./controls/controls";
import { byId, element } from "./dom";
import { LiveFeed } from "./feed";
import { Flown, flownCamera } from "./panels/flown";
import { showConnection, showHead } from "./panels/head";
import { showHealth } from "./panels/health";
import { HistoryPanel } from "./panels/history";
import { Latency } from "./panels/latency";
import { Log } from "./panels/log";
import { Pictures } from "./panels/pictures";
import { ServicesPanel } from "./panels/services";
import { TwinsPanel } from "./panels/twins";
import { RaceBoard } from "./race/board";
import { gatesAhead } from "./race/course";
import type { Status, Whoami } from "./status";
import { startTheme } from "./theme";
import { Updates } from "./updates";
import { SceneStore } from "./world/facts";
import { WorldView } from "./world/view";

const feed = new LiveFeed();
const scene = new SceneStore(feed);
const flown = new Flown();
const history = new HistoryPanel();
const pictures = new Pictures(byId("pictures"), feed, (camera) => {
  flown.choose(camera);
  history.choose(camera);
});
const latency = new Latency(byId("latency-panel"));
const log = new Log(byId("log-panel"));
const board = new RaceBoard();
const twins = new TwinsPanel();
const services = new ServicesPanel(byId("services"));
const controls = new Controls(byId("control-groups"), byId("role"));

let greeting = 0;
const world = openWorld();
scene.onChange((facts) => {
  const actors = Object.fromEntries(facts.actors.map((actor) => [actor.name, actor]));
  const cameras = Object.fromEntries(facts.cameras.map((camera) => [camera.name, camera]));
  pictures.setCameras(facts.cameras, flownCamera({ cameras, actors }));
  controls.setScene(facts);
});
startTheme(byId<HTMLButtonElement>("theme"), () => {
  latency.redraw();
  history.redraw();
  twins.redraw();
});

function show(now: Status): void {
  showHead(now);
  flown.show(now);
  if (document.hidden) return;
  showHealth(now);
  latency.show(now);
  controls.show(now);
  pictures.explain(now.cameras);
  showRace(now);
  twins.show(now);
  services.show(now);
  world?.warn(now.warnings);
  world?.showMaps(Object.keys(now.maps));
}

/** The gates before each racer in its pictures, and those before the flown or the leading one in the world. */
function showRace(now: Status): void {
  board.show(now);
  const racers = now.race?.racers ?? {};
  pictures.markGates((actor) => gatesAhead(scene.facts, racers[actor]));
  const carrier = now.cameras[flownCamera(now) ?? ""]?.actor ?? "";
  const { next, after } = gatesAhead(scene.facts, racers[carrier] ?? Object.values(racers)[0]);
  world?.markGates(next?.name ?? null, after?.name ?? null);
}

/** The rest of the page works without it, in a browser that cannot draw in 3D. */
function openWorld(): WorldView | null {
  const host = byId("world-view");
  try {
    return new WorldView(host, feed, scene);
  } catch (error) {
    host.replaceChildren(element("p", "empty", (error as Error).message));
    return null;
  }
}

/** Now, and every ten minutes: a login lasts for twelve hours from the last question on. */
async function greet(): Promise<void> {
  clearTimeout(greeting);
  let again_ms = 600_000;
  try {
    const who = await ask<Whoami>("GET", "whoami");
    controls.setRole(who);
    board.lock(who.role !== "control");
  } catch (error) {
    console.warn((error as Error).message);
    again_ms = 5_000;
  }
  greeting = window.setTimeout(() => void greet(), again_ms);
}

new Updates({
  status: show,
  log: (entry) => log.take(entry),
  recording: (recording) => controls.showRecording(recording),
  connection: (connection) => {
    showConnection(connection);
    if (connection.state !== "live") return;
    log.restart();
    controls.refresh();
    scene.reload();
    void greet();
  },
});
