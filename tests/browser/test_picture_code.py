"""When the page calls a picture old, and what it adds to a reason; without a browser."""

from __future__ import annotations

import pytest

from tests.browser.in_node import in_node

pytestmark = pytest.mark.browser

# Time, elements and pictures are the test's.
PICTURES = """
import { Picture } from "./panels/picture.mjs";
import { patienceMs } from "./world/facts.mjs";
const g = globalThis;
g.window = g;
g.setInterval = () => 0;
g.createImageBitmap = async () => ({ width: 4, height: 3, close() {} });
let now_ms = 0;
g.performance.now = () => now_ms;
class Node {
  children = []; dataset = {}; textContent = ""; classes = new Set();
  classList = { toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)) };
  append(...nodes) { this.children.push(...nodes); }
  setAttribute() {}
  getContext() { return null; }
}
g.document = { createElement: () => new Node() };
const header = { blank: false, frame_id: 1, age_s: 0.1, angle_rad: 0 };
async function answer(rate_hz) {
  let take;
  const picture = new Picture({ preview: (...args) => { take = args[3]; } }, "front", "raw",
      patienceMs({ rate_hz }));
  picture.watch(true);
  const old = () => { picture.look(); return picture.node.classes.has("old-picture"); };
  const came = async () => {
    take({ header, jpeg: null });
    for (let i = 0; i < 9; i += 1) await Promise.resolve();
    return old();
  };
  const seen = [];
  for (const wait_ms of [100, 100, 30_000, 100]) {  // pictures, a long stop, pictures
    seen.push(await came());
    now_ms += wait_ms;
    seen.push(old());
  }
  now_ms += Math.max(1500, 3000 / rate_hz);  // the second stop
  return [seen, old()];
}
"""

CURES = """
import { cure } from "./cures.mjs";
const answer = (facts) => cure("renderer", { state: "waiting", facts });
"""


@pytest.mark.parametrize("rate_hz", [30.0, 0.5])
def test_a_picture_is_old_as_soon_after_a_long_stop_as_before(rate_hz: float) -> None:
    seen, at_last = in_node(PICTURES, rate_hz)
    assert seen == [False, False, False, False, False, True, False, False]
    assert at_last is True


def test_a_renderer_that_is_too_slow_is_not_asked_whether_it_is_started() -> None:
    assert in_node(CURES, {"too_slow": True}) == ""
    assert "is it started?" in in_node(CURES, {})
