"""Multirotors of the 250 mm class and larger.

Carbon frame, motors, feet, battery, camera, lights, turning blades.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_exp, yaw_matrix
from vil_renderer.embedded.actors.lofts import loft
from vil_renderer.embedded.assets.model import Asset, Node
from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.shapes import MeshBuilder, box, lathe

_ARMS_M: Final[Mapping[int, float]] = {4: 0.125, 6: 0.150, 8: 0.185}
"""From the middle to the motors, by the number of rotors: the blades of neighbours stay apart."""
_BLADE_M: Final = 0.064
_DECK_Z_M: Final = 0.031
_SPIN: Final = 15.4

_CARBON: Final[Tint] = (0.16, 0.17, 0.19)
_STEEL: Final[Tint] = (0.55, 0.57, 0.60)
_BLACK: Final[Tint] = (0.07, 0.07, 0.08)
_ORANGE: Final[Tint] = (1.0, 0.45, 0.12)
_YELLOW: Final[Tint] = (0.95, 0.80, 0.10)
_BLUE: Final[Tint] = (0.15, 0.35, 0.75)
_BLADES: Final[Tint] = (0.95, 0.42, 0.10)
_BLADES_REAR: Final[Tint] = (0.22, 0.23, 0.26)


def spin_rev_per_s(rotors: int) -> dict[str, float]:
    """Return revolutions per second of each rotor.

    Slow enough to be seen, neighbours against each other.
    """
    return {f"rotor{k}": _SPIN * (1 - 2 * (k % 2)) for k in range(rotors)}


def multirotor(name: str, rotors: int) -> Asset:
    """Build a body node and four, six or eight that turn about their own z.

    X is ahead, the origin lies in the frame.

    The first rotor is the front left one, the others follow counter-clockwise.
    """
    frame = Node("frame", primitives=_body(rotors).asset("frame").nodes[0].primitives)
    nodes = [frame]
    for k, angle in enumerate(_angles(rotors)):
        sense = -1.0
        if k % 2:
            sense = 1.0
        tint = _BLADES_REAR
        if math.cos(angle) > 1e-9:
            tint = _BLADES
        reach = _ARMS_M[rotors]
        at = np.array([reach * math.cos(angle), reach * math.sin(angle), _DECK_Z_M])
        blades = _propeller(sense, tint)
        # Along the arm: the box is then as regular as the arms are.
        rest = q_exp(np.array([0.0, 0.0, angle]))
        nodes.append(
            Node(f"rotor{k}", 0, at, rest, primitives=blades.asset("rotor").nodes[0].primitives)
        )
    return Asset(name, tuple(nodes), origin="procedural")


def _angles(rotors: int) -> list[float]:
    return [math.pi * (2 * k + 1) / rotors for k in range(rotors)]


def _body(rotors: int) -> Thing:
    thing = Thing()
    if rotors > 4:  # the arms meet on round plates
        for z in (-0.006, 0.026):
            plate = lathe([(0.0, 0.0), (0.050, 0.0), (0.050, 0.002), (0.0, 0.002)], 2 * rotors)
            thing.add(plate.at(0.0, 0.0, z), "cloth", _CARBON)
    _stack(thing)
    for angle in _angles(rotors):
        _arm(thing, angle, _ARMS_M[rotors])
    return thing


def _stack(thing: Thing) -> None:
    """Add plates, electronics between them, battery below its strap on top, camera in front,
    receiver behind.
    """
    for z in (-0.006, 0.026):
        thing.add(box((0.125, 0.046, 0.002)).at(0.0, 0.0, z), "cloth", _CARBON)
        thing.add(box((0.060, 0.066, 0.002)).at(0.0, 0.0, z), "cloth", _CARBON)
    for x in (-0.055, 0.055):
        for y in (-0.018, 0.018):
            thing.add(lathe([(0.0025, -0.004), (0.0025, 0.026)], 6).at(x, y, 0.0), "plain", _ORANGE)
    thing.add(box((0.036, 0.036, 0.003)).at(0.0, 0.0, 0.002), "plain", (0.10, 0.32, 0.18))
    thing.add(box((0.036, 0.036, 0.003)).at(0.0, 0.0, 0.012), "plain", (0.10, 0.18, 0.36))
    thing.add(box((0.012, 0.012, 0.004)).at(0.004, 0.0, 0.015), "plain", _BLACK)
    thing.add(box((0.075, 0.036, 0.028)).at(-0.006, 0.0, 0.029), "cloth", _BLUE)
    thing.add(box((0.018, 0.039, 0.0305)).at(-0.004, 0.0, 0.028), "cloth", _YELLOW)
    thing.add(box((0.022, 0.026, 0.026)).at(0.061, 0.0, -0.002), "plain", _STEEL)
    lens = lathe([(0.0, 0.0), (0.010, 0.0), (0.010, 0.009), (0.007, 0.012), (0.0, 0.010)], 14)
    thing.add(lens.turned(_UP_TO_FORWARD).at(0.072, 0.0, 0.011), "plain", _BLACK)
    aerial = lathe(
        [(0.0015, 0.0), (0.0015, 0.045), (0.006, 0.046), (0.006, 0.056), (0.0, 0.058)], 8
    )
    thing.add(aerial.at(-0.058, 0.0, 0.026), "plain", _BLACK)
    thing.add(box((0.004, 0.030, 0.010)).at(-0.063, 0.0, 0.008), "beacon")


def _arm(thing: Thing, angle: float, reach_m: float) -> None:
    """Add an arm with motor, light and foot."""
    x = reach_m * math.cos(angle)
    y = reach_m * math.sin(angle)
    thing.add(
        box((reach_m - 0.02, 0.016, 0.004)).at(0.57 * x, 0.57 * y, -0.004, angle), "cloth", _CARBON
    )
    thing.add(box((0.026, 0.012, 0.004)).at(0.55 * x, 0.55 * y, 0.0, angle), "plain", _BLACK)
    thing.add(
        lathe([(0.0, -0.004), (0.016, -0.004), (0.016, 0.0), (0.0, 0.0)], 14).at(x, y, 0.0),
        "cloth",
        _CARBON,
    )
    motor = [
        (0.012, 0.0),
        (0.012, 0.006),
        (0.0135, 0.007),
        (0.0135, 0.020),
        (0.010, 0.024),
        (0.003, 0.025),
    ]
    thing.add(lathe([*motor, (0.003, 0.033), (0.0, 0.034)], 14).at(x, y, 0.0), "plain", _STEEL)
    foot = lathe([(0.0, -0.030), (0.004, -0.029), (0.006, -0.004)], 8)
    thing.add(foot.at(0.94 * x, 0.94 * y, 0.0), "plain", _BLACK)
    light = box((0.008, 0.012, 0.003)).at(0.80 * x, 0.80 * y, -0.0072, angle)
    thing.add(light, "lamp_light" if x > 1e-9 else "beacon")


def _propeller(sense: float, tint: Tint) -> Thing:
    """Build two twisted blades and a hub around z.

    ``sense`` +1 lifts when turning clockwise seen from above.
    """
    thing = Thing().add(lathe([(0.006, -0.003), (0.006, 0.003), (0.0, 0.005)], 10), "plain", tint)
    stations = np.linspace(0.003, _BLADE_M, 7)
    chord = 0.013 * np.sqrt(np.maximum(0.08, 1.0 - (2.0 * stations / _BLADE_M - 0.95) ** 2))
    pitch = np.radians(np.linspace(38.0, 14.0, 7)) * sense
    # A flat diamond for each station, turned by the pitch about the blade's axis x.
    corners = np.array([(0.5, 0.0), (0.0, 0.07), (-0.5, 0.0), (0.0, -0.07)])
    c = np.cos(pitch)[:, None]
    s = np.sin(pitch)[:, None]
    y = corners[:, 0] * chord[:, None]
    z = corners[:, 1] * chord[:, None]
    rings = np.stack(
        (np.broadcast_to(stations[:, None], y.shape), c * y - s * z, s * y + c * z), axis=-1
    )
    blade = loft(rings)
    for half_turn in (0.0, math.pi):
        turned: MeshBuilder = blade.turned(yaw_matrix(half_turn))
        thing.add(turned, "plain", tint)
    return thing


_UP_TO_FORWARD: Final = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
