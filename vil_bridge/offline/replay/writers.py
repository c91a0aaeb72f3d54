"""Files of a replay.

Each camera's pictures with their headers and ledger, the actors' poses and tracking states.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, Self

import msgspec
import numpy as np

from vil_bridge.bodies.skeleton import place_of
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.text import csv_line
from vil_bridge.core.types import ActorKind, ImageArray, TrackingState
from vil_bridge.monitoring.frame_records import CameraHead
from vil_bridge.offline.files import encoded, jpeg, suffix_of
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.frame_ledger import frame_row, ledger_stamps
from vil_bridge.world.world import World


class PictureWriter:
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` that writes each modality to files.

    Colours are JPEG of quality 90 as the stream has them by default, all else is without loss.
    ``pictures.jsonl`` holds each picture's header and file.

    Attributes:
        written: pictures so far. rows: file of the frames' stamps.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, camera: BridgeCamera) -> None:
        self._folder = folder
        self._variant = camera.variants[0]
        self._modalities = camera.modalities
        for modality in camera.modalities:
            (folder / modality).mkdir(parents=True)
        self._headers: IO[bytes] = (folder / "pictures.jsonl").open("wb")
        self.rows = folder / ".rows"
        self._rows: IO[bytes] = self.rows.open("wb")
        self._last_id = 0
        self.written = 0

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True for what the camera has, compensated where it compensates.

        Ids that the warp needs are not.
        """
        return variant == self._variant and modality in self._modalities

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Write a picture.

        Raises:
            OSError: the disk is full.
        """
        if pixels.dtype == np.uint8 and pixels.shape[2:] != (4,):
            suffix = ".jpg"
            data = jpeg(pixels)
        else:
            suffix = suffix_of(pixels)
            data = encoded(pixels)
        name = f"{header.modality}/{header.frame_id}{suffix}"
        (self._folder / name).write_bytes(data)
        self.written += 1
        self._headers.write(msgspec.json.encode({"file": name, **header.fields()}) + b"\n")
        if header.frame_id != self._last_id:
            self._last_id = header.frame_id
            self._rows.write(msgspec.json.encode(frame_row(header, ledger_stamps(header))) + b"\n")

    def flush(self) -> None:
        """Do nothing: every picture is written at once."""

    def close(self) -> None:
        """Close the tables."""
        self._headers.close()
        self._rows.close()


def write_ledger(path: Path, cameras: Sequence[tuple[CameraHead, PictureWriter]]) -> None:
    """Join the cameras' rows into one file that ``vil-bridge report`` reads."""
    with path.open("wb") as out:
        for head, writer in cameras:
            out.write(msgspec.json.encode(head) + b"\n")
            with writer.rows.open("rb") as rows:
                shutil.copyfileobj(rows, out)
            writer.rows.unlink()


_TUM_HEAD: Final = "# t[s] x y z[m] qx qy qz qw: T_world_body at its capture, bridge time\n"
_STATES_HEAD: Final = "t_ns,actor,state\n"


class TrackWriter:
    """Writer of ``trajectories/ACTOR.txt`` (TUM) of every actor and ``states.csv``.

    Use it as a context manager.
    """

    def __init__(self, folder: Path, world: World) -> None:
        (folder / "trajectories").mkdir()
        self._world = world
        self._files = {
            a.name: _table(folder / "trajectories" / f"{a.name}.txt", _TUM_HEAD)
            for a in world.actors
        }
        self._states = _table(folder / "states.csv", _STATES_HEAD)
        self._seen_ns = dict.fromkeys(self._files, -1)
        self._last: dict[str, TrackingState] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for file in (*self._files.values(), self._states):
            file.close()

    def tracked(self, source: str) -> None:
        """Write the new poses of a source's actors after the world took its frame."""
        for actor in self._world.actors:
            if actor.source == source:
                found = self._newest(actor.name, actor.kind)
                if found is not None and found[1] > self._seen_ns[actor.name]:
                    self._seen_ns[actor.name] = found[1]
                    self._files[actor.name].write(_tum(found[1], found[0]))

    def check(self) -> None:
        """Write the states that changed since the last check."""
        for name in self._files:
            state = self._world.state_of(name)
            if state is not self._last.get(name):
                self._last[name] = state
                self._states.write(csv_line((now_ns(), name, state)))

    def _newest(self, actor: str, kind: ActorKind) -> tuple[Transform, int] | None:
        if kind is not ActorKind.HUMAN:
            rigid = self._world.newest(actor)
            return None if rigid is None else rigid[:2]
        human = self._world.newest_skeleton(actor)
        return None if human is None else (place_of(human[0]), human[1])


def _table(path: Path, head: str) -> IO[str]:
    file = path.open("w", encoding="ascii", newline="\n")
    file.write(head)
    return file


def _tum(t_ns: int, pose: Transform) -> str:
    seconds, rest = divmod(t_ns, NS_PER_S)
    return (
        f"{seconds}.{rest:09d} {' '.join(map(repr, (*pose.p_m.tolist(), *pose.q_xyzw.tolist())))}\n"
    )
