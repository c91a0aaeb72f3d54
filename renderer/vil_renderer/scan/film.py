"""Poses of a film's sharpest pictures by structure from motion (pycolmap, extra ``sfm``)."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from vil_bridge.core.errors import ConfigError
from vil_bridge.protocols import opencv as cv2
from vil_renderer.scan.scan_import import made_from

_SUFFIXES: Final = frozenset({".mp4", ".mov", ".avi", ".mkv", ".m4v", ".webm"})
_MOST_PICTURES: Final = 300
_FEWEST: Final = 10
_EXHAUSTIVE: Final = 120
"""Pictures up to which each is matched with each; more are matched with those before and after."""
_OVERLAP: Final = 15
_MOST_FEATURES: Final = 4096
"""Of a picture; the time of matching grows with the square."""
_EVERY_S: Final = 0.4
_QUALITY: Final = 96
_LEAST_SHARE: Final = 0.5


def is_film(path: Path) -> bool:
    """Return whether a path is a film by its suffix."""
    return path.suffix.lower() in _SUFFIXES


def poses_of_film(film: Path, folder: Path, progress: Callable[[str, float], None]) -> None:
    """Write the sharpest picture of each 0.4 s to ``images``, at most 300, and a model of COLMAP to
    ``sparse/0``.

    One camera took all pictures; its focal length and distortion are found with the poses.

    Args:
        film: in a format that OpenCV reads.
        folder: a new one, or one of an earlier run, which is replaced.
        progress: gets the step and the share of it that is done.

    Raises:
        ConfigError: the film cannot be read, the poses cannot be found, or the folder has splats or
            a mesh, which were made with the poses of an earlier run.
    """
    if (made := made_from(folder)) is not None:
        raise ConfigError(
            f"{made} was made with the poses of an earlier run, new ones have other axes: "
            f"import {folder} in place of "
            f"the film, or remove {made.name}"
        )
    pictures = sharpest(film)
    # A film that cannot be read ends here, before anything is replaced.
    first = next(pictures, None)
    import pycolmap  # pyright: ignore[reportMissingImports]

    images = folder / "images"
    database = folder / "database.db"
    for old in (images, folder / "sparse"):
        shutil.rmtree(old, ignore_errors=True)
    database.unlink(missing_ok=True)
    images.mkdir(parents=True)
    count = 0
    for picture, share in chain(() if first is None else (first,), pictures):
        cv2.imwrite(str(images / f"{count:05d}.jpg"), picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        count += 1
        progress("reading the film", share)
    if count < _FEWEST:
        raise ConfigError(
            f"{film} has {count} pictures {_EVERY_S} s apart, at least {_FEWEST} are "
            "needed: film longer"
        )
    best = _reconstructed(pycolmap, images, database, folder / "sparse", count, progress)
    if best is None or best.num_reg_images() < max(_FEWEST, _LEAST_SHARE * count):
        placed = 0 if best is None else best.num_reg_images()
        raise ConfigError(
            f"only {placed} of {count} pictures of {film} fit together: film slowly, "
            "sideways, with texture in "
            "view, and come back to where you began"
        )
    model = folder / "sparse" / "0"
    shutil.rmtree(folder / "sparse")
    model.mkdir(parents=True)
    best.write(str(model))


def _reconstructed(
    pycolmap: Any,
    images: Path,
    database: Path,
    sparse: Path,
    count: int,
    progress: Callable[[str, float], None],
) -> Any:
    """Return the largest reconstruction; None = there is none."""
    sparse.mkdir(exist_ok=True)
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = "OPENCV"
    progress("features", 0.0)
    cpu = pycolmap.Device.cpu
    features = pycolmap.FeatureExtractionOptions()
    features.sift.max_num_features = _MOST_FEATURES
    pycolmap.extract_features(
        database,
        images,
        camera_mode=pycolmap.CameraMode.SINGLE,
        reader_options=reader,
        extraction_options=features,
        device=cpu,
    )
    progress("matches", 0.0)
    if count <= _EXHAUSTIVE:
        pycolmap.match_exhaustive(database, device=cpu)
    else:
        pairs = pycolmap.SequentialPairingOptions()
        pairs.overlap = _OVERLAP
        pycolmap.match_sequential(database, pairing_options=pairs, device=cpu)
    progress("poses", 0.0)
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = 1
    made = 0

    def placed() -> None:
        nonlocal made
        made += 1
        progress("poses", min(1.0, made / count))

    models = pycolmap.incremental_mapping(
        database, images, sparse, options=options, next_image_callback=placed
    )
    return max(models.values(), key=lambda one: one.num_reg_images(), default=None)


def sharpest(film: Path) -> Iterator[tuple[Any, float]]:
    """Yield the sharpest picture of each stretch of a film, with the share that was read."""
    reader = cv2.VideoCapture(str(film))
    try:
        rate_hz = reader.get(cv2.CAP_PROP_FPS)
        total = reader.get(cv2.CAP_PROP_FRAME_COUNT)
        if not reader.isOpened() or rate_hz <= 0.0:
            raise ConfigError(f"{film} cannot be read as a film: convert it to MP4 with H.264")
        stretch = max(1, round(_EVERY_S * rate_hz), math.ceil(total / _MOST_PICTURES))
        best = None
        best_sharpness = -1.0
        number = 0
        while number < stretch * _MOST_PICTURES:
            more, picture = reader.read()
            if not more:
                break
            number += 1
            sharpness = cv2.Laplacian(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), cv2.CV_32F).var()
            if sharpness > best_sharpness:
                best = picture
                best_sharpness = sharpness
            if number % stretch == 0:
                yield best, min(1.0, number / max(1.0, total))
                best = None
                best_sharpness = -1.0
    finally:
        reader.release()
