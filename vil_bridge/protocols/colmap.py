"""Sparse models of COLMAP.

Cameras and poses of pictures, as text and as binary files (COLMAP 3, output formats).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray

_MODELS: Final = (
    *(("SIMPLE_PINHOLE", 3), ("PINHOLE", 4), ("SIMPLE_RADIAL", 4), ("RADIAL", 5), ("OPENCV", 8)),
    *(
        ("OPENCV_FISHEYE", 8),
        ("FULL_OPENCV", 12),
        ("FOV", 5),
        ("SIMPLE_RADIAL_FISHEYE", 4),
        ("RADIAL_FISHEYE", 5),
    ),
    ("THIN_PRISM_FISHEYE", 12),
)
"""Names by their numbers, and how many parameters they have."""
_LARGEST_BYTES: Final = 4 << 30
_LONGEST_NAME: Final = 4096
_MOST: Final = 1_000_000
_CAMERA: Final = struct.Struct("<IiQQ")
_IMAGE: Final = struct.Struct("<I7dI")
_POINT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class ColmapCamera:
    """Camera: the name of its model, its size, and its parameters in COLMAP's order."""

    model: str
    width_px: int
    height_px: int
    params: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PosedImage:
    """Picture: number of its camera, and the pose of the world in the camera.

    ``x_camera = R(q) x + t``.
    """

    name: str
    camera: int
    q_xyzw: FloatArray
    t: FloatArray


def model_files(folder: Path) -> tuple[Path, Path] | None:
    """Return the files of cameras and pictures of a folder, the binary ones first.

    None = it has none.
    """
    for suffix in (".bin", ".txt"):
        files = folder / f"cameras{suffix}", folder / f"images{suffix}"
        if all(file.is_file() for file in files):
            return files
    return None


def read_model(folder: Path) -> tuple[Mapping[int, ColmapCamera], list[PosedImage]]:
    """Return the cameras by number and the pictures of a model.

    Raises:
        ConfigError: a file is absent or malformed.
    """
    files = model_files(folder)
    if files is None:
        raise ConfigError(
            f"{folder} has no model of COLMAP: cameras.bin and images.bin, or both as .txt"
        )
    cameras_file, images_file = files
    try:
        if max(file.stat().st_size for file in files) > _LARGEST_BYTES:
            raise ConfigError(f"{folder}: a file is larger than {_LARGEST_BYTES >> 30} GiB")
        if cameras_file.suffix == ".bin":
            return dict(_binary_cameras(cameras_file.read_bytes())), list(
                _binary_images(images_file.read_bytes())
            )
        texts = [file.read_text(encoding="utf-8") for file in files]
        return dict(_text_cameras(texts[0])), list(_text_images(texts[1]))
    except (struct.error, ValueError, IndexError, OverflowError) as exc:
        raise ConfigError(
            f"{folder}: a file is malformed: {exc}. Write the model again with COLMAP"
        ) from exc
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be read: {exc}") from exc


def _count(data: bytes) -> int:
    (count,) = struct.unpack_from("<Q", data)
    if count > _MOST:
        raise ValueError(f"{count} entries, at most {_MOST}")
    return int(count)


def _binary_cameras(data: bytes) -> Iterator[tuple[int, ColmapCamera]]:
    at = 8
    for _ in range(_count(data)):
        number, model, width, height = _CAMERA.unpack_from(data, at)
        if not 0 <= model < len(_MODELS):
            raise ValueError(f"camera model {model} is unknown")
        name, count = _MODELS[model]
        params = struct.unpack_from(f"<{count}d", data, at + _CAMERA.size)
        at += _CAMERA.size + 8 * count
        yield number, ColmapCamera(name, width, height, params)


def _binary_images(data: bytes) -> Iterator[PosedImage]:
    at = 8
    for _ in range(_count(data)):
        _, qw, qx, qy, qz, *t, camera = _IMAGE.unpack_from(data, at)
        at += _IMAGE.size
        end = data.index(b"\0", at, at + _LONGEST_NAME)
        name = data[at:end].decode("utf-8")
        (points,) = struct.unpack_from("<Q", data, end + 1)
        at = end + 9 + _POINT_BYTES * points
        if at > len(data):
            raise ValueError(f"picture {name!r} is cut off")
        yield _posed(name, camera, (qx, qy, qz, qw), t)


def _text_cameras(text: str) -> Iterator[tuple[int, ColmapCamera]]:
    parameters = dict(_MODELS)
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            number, model, width, height, *params = line.split()
            if model not in parameters or len(params) != parameters[model]:
                raise ValueError(
                    f"camera {number} has the model {model} and {len(params)} parameters"
                )
            yield (
                int(number),
                ColmapCamera(model, int(width), int(height), tuple(map(float, params))),
            )


def _text_images(text: str) -> Iterator[PosedImage]:
    """Two lines for each picture; the second one, its points, may be empty."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in lines[::2]:
        if not line.strip():
            continue
        _, qw, qx, qy, qz, *t, camera, name = line.split(maxsplit=9)
        q_xyzw = float(qx), float(qy), float(qz), float(qw)
        yield _posed(name.strip(), int(camera), q_xyzw, [float(v) for v in t])


def _posed(name: str, camera: int, q_xyzw: tuple[float, ...], t: list[float]) -> PosedImage:
    q = np.array(q_xyzw)
    shift = np.array(t)
    length = float(np.linalg.norm(q))
    if not (np.isfinite(shift).all() and np.isfinite(length) and length > 0.0):
        raise ValueError(f"picture {name!r} has a pose that is not finite")
    return PosedImage(name, camera, q / length, shift)
