"""Help for the OptiTrack tests.

An independent writer of NatNet bytes, motions, a running source.
"""

from __future__ import annotations

import math
import struct
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.events import Received, receiving
from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import q_from_euler_zyx, q_mul, q_rotate
from vil_bridge.core.types import (
    FloatArray,
    Markers,
    MotionFrame,
    SkeletonFrame,
    SkeletonModel,
)
from vil_bridge.interfaces.faults import Faults

VERSIONS = ((3, 0, 0, 0), (3, 1, 0, 0), (4, 0, 0, 0), (4, 1, 0, 0), (4, 2, 0, 0))
OLD_VERSIONS = ((2, 5, 0, 0), (2, 6, 0, 0), (2, 7, 0, 0), (2, 9, 0, 0), (2, 10, 0, 0))
Version = tuple[int, int, int, int]


def golden(name: str) -> bytes:
    """A vector of tests/golden/natnet."""
    return bytes.fromhex(
        (Path(__file__).parents[1] / "golden" / "natnet" / f"{name}.hex").read_text()
    )


# --- bytes, written straight from the layout ------------------------------------------------------


def _i(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def _f(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def datagram(identity: int, payload: bytes) -> bytes:
    return struct.pack("<HH", identity, len(payload)) + payload


def _body(version: Version, identity: int, p: tuple[float, float, float], tracked: bool) -> bytes:
    out = _i(identity) + _f(*p) + _f(0.0, 0.0, 0.6, 0.8)
    if version < (3,):
        out += _i(2) + _f(*range(6)) + _i(1, 2) + _f(0.01, 0.01)
    return out + _f(0.0005) + (struct.pack("<h", tracked) if version >= (2, 6) else b"")


def full_frame(version: Version) -> bytes:
    """A frame with something in every section.

    Bodies 7 and 8 (8 untracked), skeleton 3, one marker.
    """
    channels = _i(2, 3) + _f(1, 2, 3) + _i(0)
    marker = _i(50007) + _f(0.1, 0.2, 0.3) + _f(0.02)
    marker += (struct.pack("<h", 18) if version >= (2, 6) else b"") + (
        _f(0.0004) if version >= (3,) else b""
    )
    bodies = _body(version, 7, (1.0, 2.0, -0.5), True) + _body(version, 8, (4.0, 5.0, 6.0), False)
    bones = _body(version, 3 << 16 | 1, (0.0, 1.0, 0.0), True) + _body(
        version, 3 << 16 | 2, (0.0, 0.25, 0.0), True
    )
    sections: list[tuple[int, bytes]] = [
        (2, b"all\0" + _i(1) + _f(1, 2, 3) + b"\0" + _i(0)),
        (1, _f(1, 2, 3)),
        (2, bodies),
        (1, _i(3, 2) + bones),
    ]
    if version >= (4, 1):
        sections.append((1, _i(5, 1) + _body(version, 1, (0, 0, 0), True) + _i(1) + marker))
    sections.append((1, marker))
    if version >= (2, 9):
        sections.append((1, _i(9) + channels))
    if version >= (3,):
        sections.append((2, (_i(10) + channels) * 2))
    payload = _i(1001)
    for count, content in sections:
        payload += _i(count) + (_i(len(content)) if version >= (4, 1) else b"") + content
    return datagram(7, payload + suffix(version))


def suffix(version: Version, *, params: int = 1) -> bytes:
    out = (_f(99.0) if version < (3,) else b"") + _i(0, 0)
    if version >= (2, 7):
        out += struct.pack("<d", 12.5)
    elif version >= (2, 6):
        out += _f(12.5)
    if version >= (3,):
        out += struct.pack("<3Q", 1000, 1100, 1200)
    if version >= (4, 1):
        out += _i(0, 0)
    return out + (struct.pack("<h", params) if version >= (2, 6) else b"") + _i(0)


def _description(
    version: Version, name: str, identity: int, parent: int, y: float, markers: int
) -> bytes:
    out = name.encode() + b"\0" + _i(identity, parent) + _f(0.0, y, 0.0)
    if version >= (4, 2):
        out += _f(0.0, 0.0, 0.6, 0.8)
    if version >= (3,):
        out += _i(markers) + _f(*range(3 * markers)) + _i(*[0] * markers)
        out += b"mark\0" * markers if version >= (4,) else b""
    return out


def full_models(version: Version) -> bytes:
    """Descriptions of every type.

    Rigid body "cf7" (7), skeleton "Actor" (3: Hip, Ab) among others.
    """
    items = [
        (0, b"all\0" + _i(2) + b"one\0two\0"),
        (1, _description(version, "cf7", 7, -1, 0.0, 2)),
        (
            2,
            b"Actor\0"
            + _i(3, 2)
            + _description(version, "Hip", 1, 0, 0.0, 0)
            + _description(version, "Ab", 2, 1, 0.25, 1),
        ),
    ]
    if version >= (3,):
        items.append(
            (3, _i(1) + b"serial\0" + _f(*[0.0] * (2 + 3 + 144 + 12)) + _i(1, 2, 1) + b"Fx\0")
        )
        items.append((4, _i(1) + b"NI\0serial\0" + _i(1, 2, 2) + b"a0\0a1\0"))
        items.append((5, b"Prime 13\0" + _f(*range(7))))
    if version >= (4, 1):
        items.append((6, b"Flag\0" + _i(1, 2, 0, 0)))
        items.append((77, b"from the future"))
    payload = _i(len(items))
    for kind, content in items:
        payload += _i(kind) + (_i(len(content)) if version >= (4, 1) else b"") + content
    return datagram(5, payload)


# --- motions --------------------------------------------------------------------------------------


ACTOR = SkeletonModel(
    name="Actor",
    bones=("Hip", "Ab", "Head", "LThigh", "LShin"),
    parents=(-1, 0, 1, 0, 3),
    offsets_m=np.array(
        [[0.0, 0.0, 0.93], [0.01, 0.0, 0.2], [0.0, 0.0, 0.5], [0.0, 0.1, -0.02], [0.0, 0.0, -0.42]]
    ),
)


@dataclass
class SpinMotion:
    """Bodies on circles and a skeleton that turns and bends; ``occluded`` ones are not tracked.

    ``still_ns`` is an instant at which everything stands still, so that frames can be compared
    without a clock.
    """

    subjects: tuple[str, ...] = ("drone", "gate")
    occluded: set[str] = field(default_factory=set)
    skeleton_models: tuple[SkeletonModel, ...] = field(default_factory=lambda: (ACTOR,))
    still_ns: int | None = None
    marked: bool = False

    def at(self, t_ns: int) -> MotionFrame:
        angle = 2.0 * (t_ns if self.still_ns is None else self.still_ns) * 1e-9
        p_m = np.array(
            [[math.cos(angle + i), math.sin(angle + i), 1.0 + i] for i in range(len(self.subjects))]
        )
        q = np.array([q_from_euler_zyx(angle + i, 0.3, -0.2) for i in range(len(self.subjects))])
        tracked = np.array([name not in self.occluded for name in self.subjects], dtype=np.bool_)
        skeletons = (walking(angle, "Actor" not in self.occluded),)
        return MotionFrame(
            self.subjects,
            p_m,
            q,
            tracked,
            skeletons,
            self._markers(p_m, q) if self.marked else None,
        )

    def _markers(self, p_m: FloatArray, q_xyzw: FloatArray) -> Markers:
        """Three on each body, the first body's second one occluded, one on the actor, one on the
        floor.
        """
        labels = [
            f"{name}/{corner}" for name in self.subjects for corner in ("tip", "left", "right")
        ]
        corners = np.array([[0.1, 0.0, 0.02], [0.0, 0.1, 0.0], [0.0, -0.08, 0.0]])
        places = np.concatenate(
            [p + q_rotate(q, corners) for p, q in zip(p_m, q_xyzw, strict=True)]
        )
        places = np.concatenate((places, [[2.0, 0.5, 1.7], [0.3, -0.4, 0.0]]))
        tracked = np.ones(len(places), dtype=np.bool_)
        tracked[1] = False
        return Markers((*labels, "Actor/LHEE", ""), places, tracked)


def walking(angle: float, tracked: bool) -> SkeletonFrame:
    """Forward kinematics of ACTOR, one bone at a time."""
    p_m, q = np.zeros((5, 3)), np.zeros((5, 4))
    p_m[0] = 2.0 + math.cos(angle), math.sin(angle), 0.95
    q[0] = q_from_euler_zyx(angle, 0.1, 0.05)
    for bone in range(1, 5):
        parent = ACTOR.parents[bone]
        p_m[bone] = p_m[parent] + q_rotate(q[parent], ACTOR.offsets_m[bone])
        q[bone] = q_mul(q[parent], q_from_euler_zyx(0.1 * bone, 0.3 * math.sin(angle + bone), 0.2))
    return SkeletonFrame(ACTOR, p_m, q, np.full(5, tracked))


# --- a running server and source ------------------------------------------------------------------


def emulated(motion: SpinMotion | None = None, faults: str = "", **config: Any) -> MotiveEmulator:
    """A Motive on free ports; slow enough for a busy machine."""
    values: dict[str, Any] = {"command_port": 0, "data_port": 0, "rate_hz": 100.0} | config
    parsed = MotiveEmulatorConfig(**values)
    return MotiveEmulator(parsed, motion or SpinMotion(), now_ns(), Faults.parse(faults))


def client(motive: MotiveEmulator, **config: Any) -> OptitrackConfig:
    return OptitrackConfig(command_port=motive.command_port, data_port=motive.data_port, **config)


def following(config: OptitrackConfig) -> AbstractAsyncContextManager[Received]:
    """A source of that configuration at work."""
    return receiving(OptitrackSource("lab", config))
