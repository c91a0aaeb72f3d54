"""Models that every scene has.

Multirotors, an aeroplane, a car, a rover, humans, a gate and a crate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final

from vil_bridge.core.types import ActorKind
from vil_renderer.embedded.actors.aeroplane import PROPELLER_REV_PER_S, aeroplane
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.actors.multirotor import multirotor, spin_rev_per_s
from vil_renderer.embedded.actors.people.builds import BUILDS
from vil_renderer.embedded.actors.rover import rover
from vil_renderer.embedded.assets.model import Asset, UvRect
from vil_renderer.embedded.scene import CLASSES, Prefab
from vil_renderer.embedded.scenes.builder import WHITE, Thing, Tint
from vil_renderer.embedded.scenes.car import car
from vil_renderer.embedded.scenes.shapes import box

_STRIPES: Final = 7
_BAR: Final = 0.12
_ORANGE: Final[Tint] = (1.0, 0.45, 0.12)
_ROTORS: Final[Mapping[str, int]] = {"quadrotor": 4, "hexarotor": 6, "octorotor": 8}


def built_in(name: str, kind: ActorKind) -> tuple[bool, Prefab]:
    """Return the shipped model of a name, else that of the kind, and whether there is one of that
    name.

    Any name with ``gate`` in it means the gate.
    """
    wanted = "gate" if "gate" in name.lower() else name
    known = wanted in _MADE
    return known, _prefab(wanted if known else _DEFAULTS[kind])


def built_in_names() -> list[str]:
    """Return the names of the shipped models."""
    return sorted(_MADE)


@cache
def _prefab(name: str) -> Prefab:
    return _MADE[name]()


def _multirotor(name: str, rotors: int) -> Prefab:
    return Prefab(multirotor(name, rotors), CLASSES["vehicle"], "size", spin_rev_per_s(rotors))


def _aeroplane() -> Prefab:
    return Prefab(aeroplane(), CLASSES["vehicle"], "size", PROPELLER_REV_PER_S, (1.0, 0.0, 0.0))


def _on_wheels(made: Callable[[], Asset]) -> Prefab:
    return Prefab(made(), CLASSES["vehicle"], "standing")


def _human(name: str) -> Prefab:
    return Prefab(figure(name), CLASSES["human"])


def _gate() -> Prefab:
    return Prefab(_striped_gate(), CLASSES["gate"], "size")


def _crate() -> Prefab:
    return Prefab(
        Thing().add(box((1.0, 1.0, 1.0), cell_m=1.0), "crate").asset("crate"),
        CLASSES["prop"],
        "size",
    )


VEHICLES: Final[Mapping[str, Callable[[], Prefab]]] = {
    **{name: partial(_multirotor, name, rotors) for name, rotors in _ROTORS.items()},
    "fixed_wing": _aeroplane,
    "rover": partial(_on_wheels, rover),
    "car": partial(_on_wheels, car),
}
_MADE: Final[Mapping[str, Callable[[], Prefab]]] = {
    **VEHICLES,
    "gate": _gate,
    "crate": _crate,
    **{name: partial(_human, name) for name in BUILDS},
}
_DEFAULTS: Final[Mapping[ActorKind, str]] = {
    ActorKind.VEHICLE: "quadrotor",
    ActorKind.HUMAN: "human",
    ActorKind.PROP: "crate",
}


def _striped_gate() -> Asset:
    """Build four bars around the x axis in a cube of 1 m, each cut into stripes."""
    thing = Thing()
    inner = 1.0 - 2.0 * _BAR
    for side in (1, -1):
        middle = side * 0.5 * (1.0 - _BAR)
        for stripe in range(_STRIPES):
            tint = WHITE if stripe % 2 else _ORANGE
            uv: UvRect = (
                stripe / _STRIPES,
                0.5 + 0.2 * side,
                (stripe + 1) / _STRIPES,
                0.7 + 0.2 * side,
            )
            tall = 1.0 / _STRIPES
            wide = inner / _STRIPES
            upright = box((1.0, _BAR, tall), uv=uv, cell_m=1.0)
            thing.add(upright.at(0.0, middle, -0.5 + stripe * tall), "cloth", tint)
            lintel = box((1.0, wide, _BAR), uv=uv, cell_m=1.0, faces="xXzZ")
            y = (stripe - 0.5 * (_STRIPES - 1)) * wide
            thing.add(lintel.at(0.0, y, middle - 0.5 * _BAR), "cloth", tint)
    return thing.asset("gate")
