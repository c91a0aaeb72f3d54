"""Inputs of a data set in addition to its plan: its recording, scene files, and the files that they name.

A data set remembers their SHA-256, since shards drawn before and after a change would not belong together. It keeps no
path of this machine: elsewhere the same files make the same data set.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vil_bridge.config.error_report import read_tree
from vil_bridge.protocols.euroc import find_mocap
from vil_bridge.tools.dataset.plan import DatasetPlan, scene_name
from vil_bridge.tools.offline.files import digest

__all__ = ["inputs_of", "pathless"]


def inputs_of(plan: DatasetPlan) -> dict[str, str]:
    """Return the SHA-256 of every file that the data set is made of, by a name that holds on any machine.

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
            yield from ((f"scenes/{scene_name(scene)}/{name}", path) for name, path in _named_in(Path(scene)))


def _named_in(scene: Path) -> Iterator[tuple[str, Path]]:
    """Yield models, textures and splats: every text of the scene that is a file, from the scene's folder."""
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
