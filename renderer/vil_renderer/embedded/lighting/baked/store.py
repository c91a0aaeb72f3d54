"""Baked light on disk, under a hash of all that it depends on."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.disk_cache import cache_folder, save_arrays
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.lighting.baked.bake import (
    RAYS,
    RECEIVERS,
    Progress,
    albedo_of,
    bake,
    mean_colours,
    sources_of,
)
from vil_renderer.embedded.lighting.baked.baked_light import BakedLight
from vil_renderer.embedded.lighting.baked.charts import ChartLayout
from vil_renderer.embedded.lighting.baked.exposure import gain_of
from vil_renderer.embedded.lighting.baked.probes import Probes
from vil_renderer.embedded.lighting.baked.receivers import Index32, Receivers
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides
from vil_renderer.embedded.lighting.baked.transport import LOWER_SKY
from vil_renderer.embedded.scene import Scene

logger = logging.getLogger(__name__)

_VERSION: Final = b"6"
_LAYOUT: Final = ("vertex", "triangles", "place", "chart")
_RECEIVERS: Final = ("p_m", "normal", "triangle", "texel", "of_texel", "of_vertex")
_PROBES: Final = ("low_m", "step_m", "free", "light")
_REPORT_S: Final = 5.0


def stored_light(scene: Scene, mesh: StaticMesh, progress: Progress | None = None) -> BakedLight:
    """Return the baked light of a scene from the cache, or work it out and store it.

    Args:
        scene: the scene.
        mesh: its static mesh.
        progress: is called from time to time; None = the log says how far it is.

    Raises:
        RendererError: embreex is not installed.
    """
    colours = mean_colours(mesh)
    path = cache_folder() / "baked_light" / f"{_hash(scene, mesh, colours)}.npz"
    found = _loaded(path, scene)
    if found is not None:
        albedo = albedo_of(mesh, found.layout, found.receivers, colours)
        return replace(found, gain=gain_of(found, scene, SolidSides(mesh), albedo))
    logger.info("baking the light of %s: this takes minutes, once", scene.name)
    with _RowFile(path.with_suffix(".rows")) as rows:
        made = bake(
            scene,
            mesh,
            progress or _Reporter(scene.name),
            receivers=RECEIVERS,
            rays=RAYS,
            rows=rows,
        )
    try:
        _save(path, made)
    except OSError as exc:
        logger.warning(
            "the baked light of %s is not stored, and is baked again next time: %s", scene.name, exc
        )
    rows.remove()
    return made


class _RowFile:
    """Rows on disk, for the time of a bake.

    Whole ones are read by the run after one that was ended.

    Processes that bake one scene at once write the same numbers to the same places of one file, and
    none shortens it. A disk that takes none costs the rows, not the bake.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rows = np.zeros((0, 0), np.int32)
        self._stored = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def open(self, count: int, width: int) -> tuple[Index32, int]:
        """Return int32 (count, width) and how many rows an earlier run has finished."""
        self._rows = np.empty((count, width), np.int32)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.fdopen(
                os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0
            )
            found = np.fromfile(self._path, np.int32, count * width)
        except OSError as exc:
            logger.debug("%s: %s", self._path, exc)
            return self._rows, 0
        whole = found[: len(found) // width * width]
        if ((whole >= LOWER_SKY) & (whole < count)).all():
            self._stored = len(whole) // width
            self._rows[: self._stored] = whole.reshape(-1, width)
        return self._rows, self._stored

    def keep(self, done: int) -> None:
        """Store that so many rows are finished."""
        if self._file is None:
            return
        left = memoryview(self._rows[self._stored : done].tobytes())
        at = self._stored * self._rows[0].nbytes
        try:
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                left = left[written:]
                at = at + written
            self._stored = done
        except OSError as exc:
            logger.debug("%s: %s", self._path, exc)

    def remove(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            self._path.unlink()


class _Reporter:
    """Progress as lines of the log, one each few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last_s = time.monotonic()

    def __call__(self, step: str, share: float) -> None:
        if time.monotonic() - self._last_s > _REPORT_S:
            self._last_s = time.monotonic()
            logger.info("baking the light of %s: %s %.0f %%", self._name, step, 100.0 * share)


def _hash(scene: Scene, mesh: StaticMesh, colours: FloatArray) -> str:
    made = hashlib.sha256(_VERSION)
    for part in _parts(scene, mesh, colours):
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()[:32]


def _parts(scene: Scene, mesh: StaticMesh, colours: FloatArray) -> Iterator[bytes]:
    yield repr((RECEIVERS, RAYS)).encode()
    for name in ("p", "normal", "colour"):
        yield np.ascontiguousarray(mesh.vertices[name]).tobytes()
    yield mesh.triangles.tobytes()
    lamps = frozenset(lamp.name for lamp in scene.lamps)
    # These do not hide them.
    yield np.array([name in lamps for name in mesh.chunks.name], np.bool_).tobytes()
    for values in (mesh.chunks.material, mesh.chunks.start, mesh.chunks.stop):
        yield values.tobytes()
    for (material, coloured), colour in zip(mesh.materials, colours, strict=True):
        yield colour.tobytes()
        yield repr(
            (coloured, material.alpha, material.double_sided, material.transmission is None)
        ).encode()
        yield repr(material.windows).encode()
    environment = scene.environment
    yield repr(
        (environment.sky.tolist(), environment.ground.tolist(), environment.exposure)
    ).encode()
    for source in sources_of(scene):
        yield repr(
            (source.name, source.to_sun if source.to_sun is None else source.to_sun.tolist())
        ).encode()
    for lamp in scene.lamps:
        direction = None
        if lamp.direction is not None:
            direction = lamp.direction.tolist()
        yield repr(
            (lamp.p_m.tolist(), lamp.light.tolist(), direction, lamp.cone_rad, lamp.range_m)
        ).encode()


def _loaded(path: Path, scene: Scene) -> BakedLight | None:
    """Return the light of a file; None = there is none, or it cannot be read."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            width, height = file["size"].tolist()
            layout = ChartLayout(size=(width, height), **{name: file[name] for name in _LAYOUT})
            receivers = Receivers(*(file[name] for name in _RECEIVERS))
            probes = Probes(*(file[f"probes_{name}"] for name in _PROBES))
            return BakedLight(
                sources_of(scene), layout, receivers, file["light"], file["straight"], probes
            )
    except FileNotFoundError:
        return None
    except Exception as exc:  # readers of broken archives raise any exception
        logger.warning("%s is damaged, and the light is baked again: %s", path, exc)
        return None


def _save(path: Path, made: BakedLight) -> None:
    """Write a file whole or not at all. Raises OSError: it cannot be written."""
    arrays = {name: getattr(made.layout, name) for name in _LAYOUT}
    arrays |= {name: getattr(made.receivers, name) for name in _RECEIVERS}
    arrays |= {"size": np.array(made.layout.size), "light": made.light, "straight": made.straight}
    arrays |= {f"probes_{name}": getattr(made.probes, name) for name in _PROBES}
    save_arrays(path, arrays)
