"""The page while the bridge refuses it, goes away or comes back as another one.

Without a browser.
"""

from __future__ import annotations

import pytest

from tests.browser.in_node import in_node

pytestmark = pytest.mark.browser


# Time, streams, sockets and answers are the test's.
STAND_INS = """
const g = globalThis;
g.window = g;
const timers = [];
g.setTimeout = (run, ms) => timers.push([ms, run]);
g.clearTimeout = (id) => { if (id) timers[id - 1] = null; };
g.setInterval = () => 0;
const fire = (ms) => { for (const [i, t] of timers.entries()) if (t?.[0] === ms) {
    timers[i] = null; t[1](); } };
const settle = async () => { for (let i = 0; i < 20; i += 1) await Promise.resolve(); };
"""

UPDATES = """
import { Updates } from "./updates.mjs";
g.EventSource = class extends EventTarget {
    constructor() { super(); g.source = this; } close() {} };
const json = (status, value) => Response.json(value, { status });
async function answer(detail) {
  const told = [];
  const connection = ({ state, why }) => told.push([state, why ?? ""].join(": "));
  const none = () => {};
  const lose = async () => { g.source.dispatchEvent(new Event("error")); await settle();
      fire(1000); };
  g.fetch = async () => json(401, { detail: "a token is needed" });
  new Updates({ status: none, log: none, recording: none, connection });
  await lose();
  await lose();
  g.source.dispatchEvent(new MessageEvent("status", { data: "{}" }));
  g.fetch = async () => json(503, { detail: "32 readers are connected already" });
  await lose();
  g.fetch = async () => new Response("<html>", { status: 502 });
  await lose();
  g.fetch = async () => { throw new TypeError("nobody there"); };
  await lose();
  return told;
}"""

SCENE = """
import { LiveFeed } from "./feed.mjs";
import { SceneStore } from "./world/facts.mjs";
g.document = Object.assign(new EventTarget(), { hidden: false, baseURI: "http://bridge/" });
class Socket {
  static OPEN = 1;
  readyState = 1;
  asked = [];
  constructor() { g.socket = this; }
  send(text) { this.asked.push(JSON.parse(text)); }
  close() {}
}
g.WebSocket = Socket;
async function answer() {
  let scene = { revision: 7, cameras: [{ name: "old" }] };
  g.fetch = async () => Response.json(scene);
  const feed = new LiveFeed();
  const states = [];
  feed.onState((state) => states.push(state));
  const store = new SceneStore(feed);
  let release = () => {};
  store.onChange(({ cameras }) => {
    release();
    release = feed.preview(cameras[0].name, "raw", 2, () => {});
  });
  await settle();
  const again = async (reason) => {
    g.socket.onclose({ reason });
    await settle();
    timers.splice(0).at(-1)[1]();   // the next attempt
    g.socket.onopen();
    return g.socket.asked[0].previews[0].camera;
  };
  const first = await again("");
  scene = { revision: 90, cameras: [{ name: "new" }] };
  const second = await again("no camera 'old'");
  return [states, first, second, feed.reason];
}"""

SILENT = """
import { LiveFeed } from "./feed.mjs";
g.document = Object.assign(new EventTarget(), { hidden: true, baseURI: "http://bridge/" });
g.WebSocket = class {
  static CONNECTING = 0;
  static OPEN = 1;
  readyState = 0;
  constructor() { g.attempts = (g.attempts ?? 0) + 1; }
  close() {}
};
let nowMs = 0;
let look = () => {};
g.setInterval = (run) => { look = run; return 1; };
g.performance = { now: () => nowMs };
async function answer() {
  const states = [];
  new LiveFeed().onState((state) => states.push(state));
  const attempts = [];
  for (nowMs = 1000; nowMs <= 40000; nowMs += 1000) {
    look();
    for (const [i, t] of timers.entries()) if (t) { timers[i] = null; t[1](); }
    attempts.push(g.attempts);
  }
  return [states, attempts[0], attempts.at(-1)];
}"""

MODEL = """
import { Stage } from "./world/stage.mjs";
import { Color } from "./three.mjs";
const palette = new Proxy({}, { get: () => new Color() });
g.ProgressEvent ??= Event;
async function answer() {
  const empty = { name: "", rooms: {}, actors: [], cameras: [], gates: [], props: [] };
  const glb = new TextEncoder().encode(
      '{"asset": {"version": "2.0"}, "scene": 0, "scenes": [{}]}').buffer;
  const asked = [];
  let works = false;
  g.fetch = async (request) => {
    asked.push(request.url);
    if (!works) throw new TypeError("gone");
    return { status: 200, arrayBuffer: async () => glb };
  };
  const stage = new Stage();
  const load = (revision, model) => {
    stage.build({ ...empty, revision, model }, palette);
    return stage.loadScenery().catch((error) => error.message);
  };
  const told = [await load(1, "http://bridge/m?hall")];
  works = true;
  told.push(await load(2, "http://bridge/m?hall"), await load(3, "http://bridge/m?hall"),
      await load(4, "http://bridge/m?yard"));
  return [told, asked.map((url) => url.split("?")[1]), stage.hasScenery];
}"""


def test_a_page_that_is_refused_says_so_and_stays_with_it() -> None:
    assert in_node(STAND_INS + UPDATES) == [
        "connecting: ",
        *["refused: a token is needed"] * 2,
        "live: ",
        "lost: the connection ended",  # at once, since the answer may take long
        "refused: 32 readers are connected already",
        *["lost: the connection ended"] * 2,
    ]


def test_a_bridge_without_an_old_camera_is_asked_for_a_new_one() -> None:
    states, first, second, reason = in_node(STAND_INS + SCENE)
    assert states == ["connecting", "lost", "lost"]
    assert (first, second, reason) == ("old", "new", "no camera 'old'")


def test_an_attempt_without_an_answer_is_given_up_and_made_again() -> None:
    states, at_first, in_the_end = in_node(STAND_INS + SILENT)
    assert states[:2] == ["connecting", "lost"]
    assert at_first == 1
    assert 4 <= in_the_end <= 20


def test_geometry_that_fails_is_tried_again_and_another_scene_has_its_own() -> None:
    told, asked, stands = in_node(STAND_INS + MODEL)
    assert told == ["gone", True, False, True]
    assert asked == ["hall", "hall", "yard"]
    assert stands
