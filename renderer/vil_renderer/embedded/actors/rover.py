"""A wheeled robot of 0.6 m.

Skid steering, bevelled body, treaded tyres, laser scanner and stereo camera on a frame.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.shapes import MeshBuilder, bevelled, box, join, lathe, tube

_AXLES_M: Final = (0.165, -0.165)
_TRACK_M: Final = 0.185
"""From the middle to the inner side of a wheel."""
_WHEEL_M: Final = 0.120
_TYRE_M: Final = 0.080
_LUGS: Final = 14
_DECK_Z_M: Final = 0.225

_PAINT: Final[Tint] = (0.96, 0.72, 0.10)
_BLACK: Final[Tint] = (0.07, 0.07, 0.08)
_RUBBER: Final[Tint] = (0.13, 0.13, 0.14)
_GREY: Final[Tint] = (0.30, 0.31, 0.33)
_METAL: Final[Tint] = (0.78, 0.79, 0.80)
_RED: Final[Tint] = (0.80, 0.09, 0.07)
_GLASS: Final[Tint] = (0.10, 0.13, 0.18)
_WHITE: Final[Tint] = (0.90, 0.90, 0.88)

_UP_TO_FORWARD: Final = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])


def rover() -> Asset:
    """Build a robot 0.60 m long, 0.53 m wide and 0.53 m high.

    X is ahead, the origin on the ground.
    """
    thing = Thing()
    _body(thing)
    _frame(thing)
    _sensors(thing)
    for side in (1.0, -1.0):
        for x in _AXLES_M:
            _wheel(thing, x, side)
    return thing.asset("rover")


def _body(thing: Thing) -> None:
    """Add the painted hull over its belly, bumpers with lights, covers, the deck."""
    thing.add(bevelled((0.50, 0.330, 0.075), 0.012).at(0.0, 0.0, 0.065), "plain", _GREY)
    thing.add(bevelled((0.54, 0.350, 0.085), 0.016).at(0.0, 0.0, 0.130), "plain", _PAINT)
    thing.add(bevelled((0.48, 0.300, 0.012), 0.004).at(0.0, 0.0, 0.213), "plain", _BLACK)
    for end in (1.0, -1.0):
        thing.add(
            bevelled((0.05, 0.300, 0.050), 0.010).at(0.275 * end, 0.0, 0.090), "plain", _BLACK
        )
        for side in (1.0, -1.0):
            thing.add(
                bevelled((0.020, 0.075, 0.040), 0.006).at(0.265 * end, 0.115 * side, 0.150),
                "plain",
                _BLACK,
            )
            light = bevelled((0.010, 0.055, 0.022), 0.003).at(0.2745 * end, 0.115 * side, 0.159)
            thing.add(light, "lamp_light" if end > 0.0 else "beacon")
        thing.add(
            bevelled((0.012, 0.090, 0.040), 0.005).at(0.268 * end, 0.0, 0.150), "plain", _GREY
        )
    for side in (1.0, -1.0):
        thing.add(
            bevelled((0.120, 0.010, 0.050), 0.003).at(0.0, 0.175 * side, 0.147), "plain", _GREY
        )
        for x in (-0.045, 0.045):
            bolt = lathe([(0.006, 0.0), (0.006, 0.003), (0.0, 0.003)], 6).turned(_sideways(side))
            thing.add(bolt.at(x, 0.180 * side, 0.172), "steel", _METAL)


def _frame(thing: Thing) -> None:
    """Add rails along the deck, and the arch that carries the sensors."""
    for side in (1.0, -1.0):
        thing.add(
            bevelled((0.44, 0.020, 0.018), 0.004).at(0.0, 0.125 * side, _DECK_Z_M), "steel", _METAL
        )
        legs = [
            (0.02, 0.125 * side, 0.235),
            (0.05, 0.125 * side, 0.350),
            (0.06, 0.112 * side, 0.372),
        ]
        thing.add(tube([*legs, (0.06, 0.0, 0.374)], 0.010, 10), "plain", _BLACK)
        brace = [(-0.13, 0.125 * side, 0.235), (0.046, 0.125 * side, 0.335)]
        thing.add(tube(brace, 0.007, 8), "plain", _BLACK)
        thing.add(
            bevelled((0.036, 0.030, 0.014), 0.004).at(0.02, 0.125 * side, 0.240), "plain", _GREY
        )
        thing.add(
            bevelled((0.036, 0.030, 0.014), 0.004).at(-0.13, 0.125 * side, 0.240), "plain", _GREY
        )
    thing.add(bevelled((0.110, 0.110, 0.010), 0.003).at(0.06, 0.0, 0.380), "plain", _BLACK)


def _sensors(thing: Thing) -> None:
    """Add laser scanner, stereo camera, computer, emergency stop, aerials."""
    base = [(0.0, 0.0), (0.046, 0.0), (0.051, 0.004), (0.051, 0.022), (0.048, 0.025)]
    thing.add(lathe([*base, (0.0, 0.025)], 24).at(0.06, 0.0, 0.390), "plain", _GREY)
    thing.add(lathe([(0.047, 0.0), (0.047, 0.034)], 24).at(0.06, 0.0, 0.415), "plain", _GLASS)
    lid = lathe([(0.047, 0.0), (0.051, 0.002), (0.051, 0.012), (0.046, 0.017), (0.0, 0.018)], 24)
    thing.add(lid.at(0.06, 0.0, 0.449), "plain", _METAL)
    thing.add(bevelled((0.028, 0.130, 0.034), 0.008).at(0.075, 0.0, 0.318), "plain", _METAL)
    thing.add(bevelled((0.020, 0.020, 0.030), 0.004).at(0.060, 0.0, 0.348), "plain", _BLACK)
    for y in (-0.045, 0.045):
        lens = lathe([(0.012, 0.0), (0.012, 0.006), (0.009, 0.008), (0.0, 0.005)], 16).turned(
            _UP_TO_FORWARD
        )
        thing.add(lens.at(0.087, y, 0.335), "plain", _BLACK)
    thing.add(bevelled((0.150, 0.170, 0.060), 0.008).at(-0.105, 0.0, _DECK_Z_M), "plain", _GREY)
    for k in range(7):
        thing.add(
            bevelled((0.130, 0.006, 0.010), 0.002).at(-0.105, 0.02 * (k - 3), 0.284),
            "plain",
            _BLACK,
        )
    thing.add(bevelled((0.004, 0.080, 0.030), 0.001).at(-0.181, 0.0, 0.240), "plain", _WHITE)
    thing.add(bevelled((0.060, 0.060, 0.030), 0.006).at(-0.200, 0.085, _DECK_Z_M), "plain", _PAINT)
    stop = lathe(
        [
            (0.011, 0.0),
            (0.011, 0.012),
            (0.022, 0.014),
            (0.022, 0.024),
            (0.016, 0.029),
            (0.0, 0.030),
        ],
        20,
    )
    thing.add(stop.at(-0.200, 0.085, 0.255), "plain", _RED)
    aerial = lathe(
        [
            (0.008, 0.0),
            (0.008, 0.020),
            (0.005, 0.026),
            (0.0035, 0.200),
            (0.0035, 0.300),
            (0.0, 0.302),
        ],
        10,
    )
    thing.add(aerial.at(-0.205, -0.095, _DECK_Z_M), "plain", _BLACK)
    dome = lathe(
        [(0.034, 0.0), (0.036, 0.008), (0.030, 0.020), (0.016, 0.027), (0.0, 0.029)],
        20,
        smooth=True,
    )
    thing.add(dome.at(0.17, -0.06, _DECK_Z_M), "plain", _WHITE)


def _wheel(thing: Thing, x: float, side: float) -> None:
    """Add an axle, a tyre with its lugs, a rim with bolts and a hub."""
    turn = _sideways(side)
    at = (x, side * _TRACK_M, _WHEEL_M)
    deep = _WHEEL_M - 0.010
    grip = 0.010
    axle = lathe([(0.024, -0.025), (0.024, 0.020)], 12)
    thing.add(axle.turned(turn).at(*at), "plain", _GREY)
    shoulder = [
        (deep - 0.012, 0.004),
        (deep, 0.014),
        (deep, _TYRE_M - 0.014),
        (deep - 0.012, _TYRE_M - 0.004),
    ]
    tyre = lathe([(0.060, 0.004), *shoulder, (0.068, _TYRE_M)], 28)
    thing.add(tyre.turned(turn).at(*at), "plain", _RUBBER)
    thing.add(_lugs(deep, grip).turned(turn).at(*at), "plain", _RUBBER)
    rim = lathe(
        [
            (0.070, 0.078),
            (0.064, 0.080),
            (0.060, 0.070),
            (0.036, 0.058),
            (0.026, 0.062),
            (0.0, 0.062),
        ],
        24,
    )
    thing.add(rim.turned(turn).at(*at), "plain", _METAL)
    hub = lathe([(0.020, 0.060), (0.020, 0.074), (0.016, 0.078), (0.0, 0.079)], 16)
    thing.add(hub.turned(turn).at(*at), "plain", _BLACK)
    for k in range(5):
        angle = 0.4 * math.pi * k
        bolt = lathe([(0.005, 0.0), (0.005, 0.008), (0.0, 0.009)], 6)
        placed = bolt.at(0.043 * math.cos(angle), 0.043 * math.sin(angle), 0.058)
        thing.add(placed.turned(turn).at(*at), "steel", _METAL)


def _lugs(radius_m: float, grip_m: float) -> MeshBuilder:
    """Build two rows of slanted lugs around z, one between the others."""
    wide = 0.5 * _TYRE_M - 0.008
    lug = box((2.0 * grip_m, 0.022, wide), faces="xyYzZ").at(0.0, 0.0, 0.006)
    parts = []
    for k in range(2 * _LUGS):
        slant = 0.22 * (1.0 if k % 2 else -1.0)
        c = math.cos(slant)
        s = math.sin(slant)
        row = lug.turned(np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]))
        lifted = row.at(radius_m, 0.0, (wide + 0.002 if k % 2 else 0.0) + 0.001)
        parts.append(lifted.turned(yaw_matrix(math.pi * k / _LUGS)))
    return join(parts)


def _sideways(side: float) -> FloatArray:
    """Return the rotation that takes z to the left (+1) or to the right (-1)."""
    return np.array([[1.0, 0.0, 0.0], [0.0, 0.0, side], [0.0, -side, 0.0]])
