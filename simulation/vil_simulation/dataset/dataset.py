"""Data set rendered from a plan.

Shard by shard, by any number of workers, resumed after an interruption.

While it is made, ``.work`` holds the plan, digests of what it reads, and an entry for each shard
that is done; a shard without an entry is done again. Shards drawn before and after a change of an
input would not belong together. The data set holds no path of this machine: elsewhere the same
files make the same data set. ``SHA256SUMS`` is written last: a data set that has it is complete.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import cv2
import msgspec
import numpy as np

from vil_bridge import __version__
from vil_bridge.config.error_report import read_tree
from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.offline.files import SUMS, digest, folder_digest, write_sums, write_whole
from vil_bridge.protocols.euroc import FILE_COLUMNS, TABLE, find_mocap
from vil_bridge.runtime.output_folder import begin_folder
from vil_simulation.dataset.executors import (
    Executor,
    ProcessExecutor,
    RayExecutor,
    SerialExecutor,
)
from vil_simulation.dataset.frames import FrameSequence, Shard, sequences_of
from vil_simulation.dataset.gate_annotations import write_annotations
from vil_simulation.dataset.inertial import calibration, write_inertial
from vil_simulation.dataset.plan import DatasetPlan, scene_name
from vil_simulation.dataset.recorded_trajectory import RecordedFlight
from vil_simulation.dataset.shard_renderer import (
    FRAMES,
    GATE_COLUMNS,
    GATES,
    LIDAR,
    RANGE,
    ShardResult,
    columns_of,
    set_cameras,
)


def inputs_of(plan: DatasetPlan) -> dict[str, str]:
    """Return the SHA-256 of every file that the data set is made of, by a name that holds on any
    machine.

    A file that is absent has none; who reads it says so.

    Raises:
        ConfigError: the recording is a folder without poses.
        OSError: a file cannot be read.
    """
    return {name: digest(path) for name, path in _files(plan) if path.is_file()}


def pathless(plan: DatasetPlan) -> dict[str, Any]:
    """Return the plan as JSON types, files by their names alone."""
    fields = plan.model_dump(mode="json")
    fields["scenes"] = [Path(scene).name for scene in plan.scenes]
    if plan.trajectory.recorded is not None:
        fields["trajectory"]["recorded"]["file"] = plan.trajectory.recorded.file.resolve().name
    return fields


def _files(plan: DatasetPlan) -> Iterator[tuple[str, Path]]:
    if plan.trajectory.recorded is not None:
        file = plan.trajectory.recorded.file.resolve()
        rows = find_mocap(file) if file.is_dir() else file
        yield f"trajectory/{rows.relative_to(file.parent)}", rows
    for scene in plan.scenes:
        if Path(scene).suffix:
            yield f"scenes/{Path(scene).name}", Path(scene)
            yield from (
                (f"scenes/{scene_name(scene)}/{name}", path)
                for name, path in _named_in(Path(scene))
            )


def _named_in(scene: Path) -> Iterator[tuple[str, Path]]:
    """Yield models, textures and splats.

    Every text of the scene that is a file, from the scene's folder.
    """
    for text in sorted(set(_texts(read_tree(scene, "").data))):
        path = scene.parent / text
        try:
            if path.is_file():
                # Of an absolute path the end: the rest is this machine's.
                name = Path(*path.parts[-2:]) if Path(text).is_absolute() else Path(text)
                yield name.as_posix(), path
        except OSError:  # longer than any file's name
            continue


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from _texts(part)


Progress = Callable[[int, int], None]
"""Called with the number of done frames and of all."""

_WORK: Final = ".work"
_NOTE: Final = "begun.json"
_SHARD_FRAMES: Final = 25
_HEADS: Final = {
    f"{LIDAR}/{TABLE}": FILE_COLUMNS,
    f"{RANGE}/{TABLE}": "#timestamp [ns],range down [m],collision",
}


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Result of a call.

    Attributes:
        frames: of the data set, all scenes. drawn: of these, by this call.
        pictures: files of cameras.
        took_s, cpu_s: of this call, by the clock and of all its workers.
        sha256: of ``SHA256SUMS``, and so of all files.
    """

    folder: str
    frames: int
    drawn: int
    pictures: int
    took_s: float
    cpu_s: float
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


class _Entry(msgspec.Struct):
    """Entry of a shard in ``.work``."""

    tables: dict[str, list[str]]
    labels: dict[str, dict[str, int]]
    drawn_by: str


def render_dataset(
    plan: DatasetPlan,
    out: Path,
    *,
    workers: int = 1,
    ray: str = "",
    shard_frames: int = _SHARD_FRAMES,
    on_progress: Progress = lambda _done, _all: None,
) -> DatasetSummary:
    """Render what is missing of a data set.

    Args:
        plan: what it holds.
        out: its folder; new, or one that this plan was begun in.
        workers: how many draw at a time.
        ray: address of the Ray cluster whose actors draw, ``local`` = on this machine; empty =
            without Ray.
        shard_frames: frames of a shard: what is lost at most when a worker dies.
        on_progress: called after every shard.

    Raises:
        ConfigError: the plan cannot be flown, ``out`` holds something else, or a file that is read
            has changed.
        RecordingError: its recording cannot be read.
        RendererError: this machine cannot draw, or a worker dies again and again.
        VilBridgeError: Ray is not installed or does not start.
        OSError: the disk is full; the same call goes on once there is room.
    """
    started_ns = machine_ns()
    executor: Executor = (
        RayExecutor(plan, out, workers, ray) if ray else ProcessExecutor(plan, out, workers)
    )
    if workers == 1 and not ray:
        executor = SerialExecutor(plan, out)
    begun = _begun(plan, shard_frames)
    sequences = sequences_of(plan)
    whole = sum(len(sequence.frames) for sequence in sequences)
    drawn = 0
    cpu_s = 0.0
    if not _complete(out, begun):
        for sequence in sequences:
            write_inertial(plan, sequence, out / sequence.name)
        shards = [shard for sequence in sequences for shard in sequence.shards(shard_frames)]
        left = [shard for shard in shards if not _entry(out, shard).exists()]
        done = whole - sum(len(shard.frames) for shard in left)
        on_progress(done, whole)
        for shard, result in executor.draw(left):
            _record(out, shard, result)
            drawn = drawn + len(shard.frames)
            cpu_s = cpu_s + result.cpu_s
            on_progress(done + drawn, whole)
        _check_inputs(out, begun, inputs_of(plan))  # what was drawn last was read last
        _assemble(plan, out, sequences, shards, begun)
    took_s = (machine_ns() - started_ns) / NS_PER_S
    pictures = whole * sum(len(camera.modalities) for camera in set_cameras(plan))
    return DatasetSummary(str(out), whole, drawn, pictures, took_s, cpu_s, folder_digest(out))


def _begun(plan: DatasetPlan, shard_frames: int) -> dict[str, Any]:
    """Return the settings that must not change until the data set is complete; JSON types."""
    return {
        "version": __version__,
        "shard_frames": shard_frames,
        "plan": pathless(plan),
        "inputs": inputs_of(plan),
    }


def _complete(out: Path, begun: dict[str, Any]) -> bool:
    """Return True when the folder holds this data set already; begin it in an empty one.

    Raises:
        ConfigError: it holds something else.
    """
    complete = (out / SUMS).exists()
    note = out / _WORK / _NOTE
    same = ["version", "plan"]
    if complete:
        # A process may have been killed just before it did this.
        shutil.rmtree(out / _WORK, ignore_errors=True)
        there = json.loads((out / "dataset.json").read_bytes())
    elif note.exists():
        there = json.loads(note.read_bytes())
        same.append("shard_frames")
    else:
        _remove_remains(out)
        begin_folder(out, "a data set")
        write_whole(note, json.dumps(begun, indent=2).encode() + b"\n")
        return False
    if any(there.get(key) != begun[key] for key in same):
        raise ConfigError(
            f"{out} holds another data set, or one of another version: choose a new folder"
        )
    _check_inputs(out, there, begun["inputs"])
    return complete


def _check_inputs(out: Path, begun: dict[str, Any], now: dict[str, str]) -> None:
    """Refuse to go on with other files than those that the data set was begun with.

    Raises:
        ConfigError: the names of those that are not the same.
    """
    before: dict[str, str] = begun.get("inputs", {})
    if changed := [name for name in sorted(before | now) if before.get(name) != now.get(name)]:
        raise ConfigError(
            f"{', '.join(changed)} changed since the data set in {out} was begun: choose "
            "a new folder"
        )


def _remove_remains(out: Path) -> None:
    """Remove what is left of a process that ended before its first file was whole.

    Such a folder is empty.
    """
    left = list((out / _WORK).glob("*"))
    if list(out.glob("*")) == [out / _WORK] and all(
        path.match(f".{_NOTE}.*.part") for path in left
    ):
        shutil.rmtree(out / _WORK)


def _entry(out: Path, shard: Shard) -> Path:
    return out / _WORK / f"{shard.key}.json"


def _record(out: Path, shard: Shard, drawn: ShardResult) -> None:
    """Record that a shard is done: its files are written."""
    entry = _Entry(drawn.tables, drawn.labels, drawn.drawn_by)
    write_whole(_entry(out, shard), msgspec.json.encode(entry))


def _assemble(
    plan: DatasetPlan,
    out: Path,
    sequences: Sequence[FrameSequence],
    shards: Sequence[Shard],
    begun: dict[str, Any],
) -> None:
    """Join the entries to tables, which completes the data set."""
    decode = msgspec.json.Decoder(_Entry).decode
    heads = {f"{camera.folder}/{TABLE}": FILE_COLUMNS for camera in set_cameras(plan)}
    heads |= _HEADS | {FRAMES: ",".join(columns_of(plan)), GATES: ",".join(GATE_COLUMNS)}
    drawn_by: set[str] = set()
    for sequence in sequences:
        entries = [
            decode(_entry(out, shard).read_bytes())
            for shard in shards
            if shard.name == sequence.name
        ]
        drawn_by |= {entry.drawn_by for entry in entries}
        for table in entries[0].tables:
            rows = [heads[table], *(row for entry in entries for row in entry.tables[table])]
            write_whole(out / sequence.name / table, ("\n".join(rows) + "\n").encode())
        labels = json.dumps(entries[0].labels, indent=2).encode() + b"\n"
        write_whole(out / sequence.name / "labels.json", labels)
    about = {
        "version": __version__,
        "libraries": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "opencv": cv2.__version__,
        },
        "drawn_by": sorted(drawn_by),
        "scenes": {sequence.name: _about(sequence) for sequence in sequences},
        "plan": begun["plan"],
        "inputs": begun["inputs"],
    }
    if "gates" in plan.measure:
        write_annotations(out, [sequence.name for sequence in sequences], set_cameras(plan))
    write_whole(out / "calibration.json", json.dumps(calibration(plan), indent=2).encode() + b"\n")
    write_whole(out / "dataset.json", json.dumps(about, indent=2).encode() + b"\n")
    for left in list(out.rglob(".*.part")):  # of a process that was killed while it wrote
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)  # it may have been in a folder that is gone already
    write_sums(out)
    shutil.rmtree(out / _WORK)


def _about(sequence: FrameSequence) -> dict[str, Any]:
    about: dict[str, Any] = {"frames": len(sequence.frames), "first_ns": sequence.frames[0].t_ns}
    if isinstance(sequence.flight, RecordedFlight):
        about["smoothed_off_rms_m"] = sequence.flight.off_m
    return about
