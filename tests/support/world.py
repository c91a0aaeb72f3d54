"""Help for the tests of the world: one room, its actors and frames."""

from __future__ import annotations

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_from_euler_zyx, q_log, q_mul
from vil_bridge.core.types import (
    ActorKind,
    SourceFrame,
)
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

MS = 1_000_000
ROOM = Transform.of((10.0, -2.0, 0.5), q_from_euler_zyx(0.7, 0.0, 0.0))


def world_of(*actors: Actor) -> World:
    return World({"mocap": ROOM}, actors)


def vehicle(name: str = "drone", **more: object) -> Actor:
    return Actor(name, ActorKind.VEHICLE, "mocap", name, **more)  # type: ignore[arg-type]


def frame(
    t_ns: int, poses: dict[str, Transform], tracked: bool = True, number: int = 0
) -> SourceFrame:
    """A frame whose stamp is its arrival: capture time unknown."""
    return SourceFrame(
        "mocap",
        number,
        None,
        t_ns,
        tuple(poses),
        np.array([p.p_m for p in poses.values()]),
        np.array([p.q_xyzw for p in poses.values()]),
        np.full(len(poses), tracked),
    )


def angle(a: Transform, b: Transform) -> float:
    return float(np.linalg.norm(q_log(q_mul(q_conj(a.q_xyzw), b.q_xyzw))))


def _arrays(f: SourceFrame) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    return f.subjects, f.p_m, f.q_xyzw, f.tracked
