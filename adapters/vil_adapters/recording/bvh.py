"""BVH files: a skeleton with its rest offsets and joint angles, posed by forward kinematics.

The hierarchy gives each joint's offset from its parent and its channels in the order in which
rotations are applied (intrinsic). Position channels replace the offset, axis by axis, on the root
as on every joint: MotionBuilder, Blender and Mixamo write the same height into both. End sites are
the tips of bones, hence no bones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from vil_adapters.recording.model import Bodies, MotionFile, RecordedSkeleton
from vil_adapters.recording.text import read_lines, table, wrong
from vil_bridge.bodies.skeleton import local_to_global
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_exp, q_mul, yup_to_zup
from vil_bridge.core.types import FloatArray, SkeletonModel

_MOST_JOINTS: Final = 1000
_AXES: Final = "XYZ"
_IDENTITY: Final = (0.0, 0.0, 0.0, 1.0)


@dataclass(slots=True)
class Joint:
    """One joint: ``channels`` are (kind, axis) with kind ``position`` or ``rotation``."""

    name: str
    parent: int
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    channels: list[tuple[str, int]] = field(default_factory=list)


def read_bvh(path: Path, *, subject: str, unit_m: float | None, up_axis: str) -> MotionFile:
    """Read a file as one skeleton.

    Args:
        path: the file.
        subject: name of the skeleton.
        unit_m: metres per unit of length of the file, which does not contain it.
        up_axis: ``y`` or ``z``.

    Raises:
        ConfigError: the file is malformed (``file:line``), or the unit is not given.
    """
    lines = read_lines(path)
    joints, motion = _Hierarchy(path, lines).read()
    values, frame_time_s = _motion(
        path, lines, motion, sum(len(joint.channels) for joint in joints)
    )
    if unit_m is None:
        raise ConfigError(
            f"{path}: BVH has no unit of length. Set unit_m, metres per unit: 0.01 for "
            "centimetres, 0.0254 for "
            "inches, 0.056444 for the CMU library"
        )
    model, bones = _pose(joints, values, subject, unit_m, up_axis)
    t_ns = np.rint(np.arange(len(values)) * (frame_time_s * NS_PER_S)).astype(np.int64)
    return MotionFile(
        str(path), "bvh", t_ns, (), Bodies.none(len(values)), (RecordedSkeleton(model, bones),)
    )


# --- the hierarchy -------------------------------------------------------------------------------


class _Hierarchy:
    """Reader of the part before MOTION."""

    def __init__(self, path: Path, lines: list[str]) -> None:
        self._path = path
        self._lines = lines
        self._joints: list[Joint] = []
        self._open: list[int | None] = []  # joints whose brace is open, None for an end site
        self._next: int | None = None
        self._announced = False

    def read(self) -> tuple[list[Joint], int]:
        """Return the joints, parents first, and the index of the line MOTION."""
        begun = False
        for number, line in enumerate(self._lines, start=1):
            words = line.split()
            if not words:
                continue
            key = words[0].upper()
            if not begun:
                if key != "HIERARCHY":
                    raise wrong(
                        self._path, number, "is not a BVH file: it does not begin with HIERARCHY"
                    )
                begun = True
            elif key == "MOTION":
                if self._open or not self._joints:
                    raise wrong(
                        self._path,
                        number,
                        f"{len(self._open)} braces of the hierarchy are not closed",
                    )
                return self._joints, number - 1
            else:
                self._handle(number, key, words[1:])
        raise wrong(self._path, len(self._lines), "the file ends before MOTION")

    def _handle(self, number: int, key: str, rest: list[str]) -> None:
        match key:
            case "ROOT" | "JOINT":
                parent = self._open[-1] if self._open else -1
                if parent is None or (key == "JOINT") != bool(self._open):
                    raise wrong(self._path, number, f"{key} does not belong here")
                if len(self._joints) == _MOST_JOINTS:
                    raise wrong(self._path, number, f"more than {_MOST_JOINTS} joints")
                self._joints.append(Joint(" ".join(rest) or f"joint{len(self._joints)}", parent))
                self._next = len(self._joints) - 1
                self._announced = True
            case "END":
                self._next = None
                self._announced = True
            case "{":
                if not self._announced:
                    raise wrong(self._path, number, "a brace opens without a joint")
                self._open.append(self._next)
                self._announced = False
            case "}":
                if not self._open:
                    raise wrong(self._path, number, "a brace closes that was never opened")
                self._open.pop()
            case "OFFSET" | "CHANNELS" if self._open:
                self._describe(number, key, rest)
            case _:
                raise wrong(self._path, number, f"{key!r} is not expected here")

    def _describe(self, number: int, key: str, rest: list[str]) -> None:
        index = self._open[-1]
        if index is None:  # how long the last bone is
            return
        joint = self._joints[index]
        if key == "OFFSET":
            try:
                x, y, z = map(float, rest)
            except ValueError:
                raise wrong(self._path, number, "OFFSET wants three numbers") from None
            joint.offset = x, y, z
            return
        names = [word.lower() for word in rest[1:]]
        kinds = [(name[1:], _AXES.lower().find(name[:1])) for name in names]
        if rest[:1] != [str(len(names))] or any(
            k not in {"position", "rotation"} or axis < 0 for k, axis in kinds
        ):
            raise wrong(
                self._path,
                number,
                "CHANNELS wants their count and names such as Xposition or Zrotation",
            )
        joint.channels = kinds


# --- the motion ----------------------------------------------------------------------------------


def _motion(path: Path, lines: list[str], start: int, channels: int) -> tuple[FloatArray, float]:
    """Return the values (frames, channels) and the time between frames, seconds."""
    head = [
        (n, line.split())
        for n, line in enumerate(lines[start + 1 : start + 9], start + 2)
        if line.strip()
    ][:2]
    if len(head) < 2:
        raise wrong(path, start + 1, "the file ends after MOTION")
    (frames_at, frames_words), (time_at, time_words) = head
    if (
        frames_words[0].lower() != "frames:"
        or len(frames_words) != 2
        or not frames_words[1].isdecimal()
    ):
        raise wrong(path, frames_at, "expected 'Frames: COUNT'")
    try:
        frame_time_s = float(time_words[-1])
    except ValueError:
        frame_time_s = 0.0
    if [word.lower() for word in time_words[:-1]] != [
        "frame",
        "time:",
    ] or not 1e-5 < frame_time_s < 1e3:
        raise wrong(path, time_at, "expected 'Frame Time: SECONDS'")
    values = table(path, lines[time_at:], time_at + 1, None, None)
    if values.shape[1] != channels:
        raise wrong(
            path,
            time_at + 1,
            f"the hierarchy has {channels} channels, the frames have {values.shape[1]}",
        )
    if str(len(values)) != frames_words[1].lstrip("0"):
        raise wrong(
            path, frames_at, f"{frames_words[1]} frames are announced, {len(values)} follow"
        )
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        numbers = [n for n, line in enumerate(lines[time_at:], time_at + 1) if line.strip()]
        raise wrong(path, numbers[int(np.argmin(finite))], "a value is not finite")
    return values, frame_time_s


def _pose(
    joints: list[Joint], values: FloatArray, subject: str, unit_m: float, up_axis: str
) -> tuple[SkeletonModel, Bodies]:
    """Return model and global poses by forward kinematics of all frames at once."""
    frames = len(values)
    parents = tuple(joint.parent for joint in joints)
    offsets_m = np.array([joint.offset for joint in joints]) * unit_m
    p = np.repeat(offsets_m[:, None], frames, axis=1)
    q = np.tile(_IDENTITY, (len(joints), frames, 1))
    column = 0
    for i, joint in enumerate(joints):
        for kind, axis in joint.channels:
            if kind == "position":
                p[i, :, axis] = values[:, column] * unit_m
            else:
                q[i] = q_mul(q[i], q_exp(np.radians(values[:, column])[:, None] * np.eye(3)[axis]))
            column += 1
    p, q = local_to_global(p, q, parents)
    if up_axis == "y":
        p, q = yup_to_zup(p, q)
        offsets_m, _ = yup_to_zup(offsets_m, np.tile(_IDENTITY, (len(joints), 1)))
    model = SkeletonModel(subject, tuple(joint.name for joint in joints), parents, offsets_m)
    tracked = np.ones((frames, len(joints)), dtype=np.bool_)
    return model, Bodies(p.transpose(1, 0, 2), q.transpose(1, 0, 2), tracked)
