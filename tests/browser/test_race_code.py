"""Pieces of the race's pages outside a browser.

Gates in pictures, sticks, clocks, the leader board.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.browser.in_node import in_node

pytestmark = pytest.mark.browser

AHEAD = (-0.5, 0.5, -0.5, 0.5)
"""Optical axes of a camera that looks along the world's x."""
PROJECT = """
import { seenGate } from "./race/projection.mjs";
function answer(given) { return given.map(([gate, header]) => seenGate(gate, header)); }
"""
STICKS = """
import { HeldKeys, Pad, stronger } from "./race/sticks.mjs";
const key = (code, type) => ({ code, type });
let pads = [];
Object.defineProperty(globalThis, "navigator", { value: { getGamepads: () => pads } });
function answer() {
  const keys = new HeldKeys(), pad = new Pad(), seen = [];
  const press = (code) => keys.take(key(code, "keydown")),
      lift = (code) => keys.take(key(code, "keyup"));
  seen.push([press("KeyW"), press("KeyQ"), press("ArrowUp"), press("KeyX")], keys.sticks());
  press("KeyS"); press("ArrowLeft");
  seen.push(keys.sticks());
  lift("KeyS"); keys.release();
  seen.push(keys.sticks(), pad.name, pad.sticks());
  const buttons = Array.from({ length: 17 }, () => ({ pressed: false }));
  pads = [null, { connected: true, id: "Stick", axes: [0.55, -1, 0.05, 1], buttons }];
  seen.push(pad.name, pad.sticks(), stronger(pad.sticks(),
      { forward: 0.5, left: 1, up: -0.2, turn: 0 }));
  const pressed = [];
  for (const down of [false, true, true, false, true])
      { buttons[9].pressed = down; pressed.push(pad.startPressed()); }
  return [...seen, pressed];
}
"""
WORDS = """
import { gatesAhead, gatesOfRace, lapOf, raceTime } from "./race/course.mjs";
import { leaders } from "./race/leaders.mjs";
function answer() {
  const gates = ["A", "B"].map((name) => ({ name }));
  const lap = { order: ["A", "B"], laps: 2, flying: true };
  const ahead = (due, state = "racing", course = lap) => {
    const { next, after } = gatesAhead({ course, gates }, { due, state });
    return [next?.name ?? null, after?.name ?? null];
  };
  const done = { outcome: "finished", course: "oval", race_laps: 3 };
  const one = (result, total_s, more = {}) => ({ result, total_s, ...done, ...more });
  const all = [one(1, 30), one(2, 20), one(3, 30), one(4, 5, { outcome: "collision" }),
      one(5, 9, { race_laps: 1 })];
  return [
    [ahead(0), ahead(3), ahead(4), ahead(4, "racing", { ...lap, flying: false }),
        ahead(1, "collision"),
      ahead(0, "ready", null)],
    [gatesOfRace(lap), lapOf({ gates: 2, laps: 2 }, { due: 4 }),
        lapOf({ gates: 2, laps: 2 }, { due: 1 })],
    [0, 9.999, 59.999, 60, 61.5, 3599.996, 0.29].map((seconds) => raceTime(seconds)),
    leaders(all, "oval", 3).map(({ result }) => result),
  ];
}
"""


def gate(x: float, y: float, z: float, yaw_deg: float, size_m: float = 1.5) -> dict[str, Any]:
    half = 0.5 * math.radians(yaw_deg)
    q_xyzw = (0.0, 0.0, math.sin(half), math.cos(half))
    return {"name": "A", "p_m": (x, y, z), "q_xyzw": q_xyzw, "width_m": size_m, "height_m": size_m}


def camera(p_m: tuple[float, float, float]) -> dict[str, Any]:
    """640 x 480, f = 320, with its middle between pixels: K counts their centres."""
    pose = {"p_m": p_m, "q_xyzw": AHEAD}
    return {"K": (320, 320, 319.5, 239.5), "width": 640, "height": 480, "pose": pose}


def test_a_gate_is_where_the_renderer_draws_it() -> None:
    """Corners of shared golden values: edges of pixels count, as on a canvas."""
    eye = camera((0.0, 0.0, 1.5))
    seen, behind, left, above, unknown, halved = in_node(
        PROJECT,
        [
            (gate(4.0, 0.5, 1.7, 20.0), eye),
            (gate(4.0, 0.0, 1.5, 180.0), eye),
            (gate(0.0, 5.0, 1.5, 0.0), eye),
            (gate(-3.0, 0.0, 9.0, 0.0), eye),
            (gate(4.0, 0.0, 1.5, 0.0), {**eye, "pose": None}),
            (gate(0.2, 0.0, 1.5, 60.0, 4.0), eye),
        ],
    )
    corners = [
        (217.0141, 158.7922),
        (335.3943, 168.5801),
        (335.3943, 281.3484),
        (217.0141, 287.0150),
    ]
    assert [tuple(point) for point in seen["outline"]] == [
        pytest.approx(corner, abs=1e-3) for corner in corners
    ]
    assert seen["middle"] == pytest.approx([280.0, 224.0], abs=1e-6) and not seen["isBehind"]
    assert seen["distance_m"] == pytest.approx(math.hypot(4.0, 0.5, 0.2))
    assert behind["isBehind"] and behind["middle"] == pytest.approx([320.0, 240.0])
    assert left["middle"] is None and left["towards"] == pytest.approx([-1.0, 0.0], abs=1e-9)
    assert above["outline"] == [] and above["middle"] is None
    assert above["towards"] == pytest.approx([0.0, -1.0], abs=1e-9)
    assert unknown is None
    assert len(halved["outline"]) == 4 and all(
        math.isfinite(number) for point in halved["outline"] for number in point
    )


def test_keys_and_gamepad_are_sticks() -> None:
    taken, held, both, released, no_pad, still, pad, sticks, mixed, pressed = in_node(STICKS)
    assert taken == [True, True, True, False]
    assert held == {"forward": 1, "left": 0, "up": 1, "turn": 1}
    assert both == {"forward": 0, "left": 0, "up": 1, "turn": 1}
    assert released == {"forward": 0, "left": 0, "up": 0, "turn": 0}
    assert (no_pad, {abs(value) for value in still.values()}, pad) == ("", {0}, "Stick")
    assert sticks == pytest.approx({"turn": -0.5, "up": 1.0, "left": 0.0, "forward": -1.0})
    assert mixed == pytest.approx({"turn": -0.5, "up": 1.0, "left": 1.0, "forward": -1.0})
    assert pressed == [False, True, False, False, True]


def test_gates_ahead_laps_clocks_and_leaders() -> None:
    ahead, counts, clocks, board = in_node(WORDS)
    assert ahead == [["A", "B"], ["B", "A"], ["A", None], [None, None], [None, None], [None, None]]
    assert counts == [5, 2, 1]
    assert clocks == ["0.00", "9.99", "59.99", "1:00.00", "1:01.50", "59:59.99", "0.29"]
    assert board == [2, 1, 3]
