"""Pictures of a scan with their cameras and poses, from folders of COLMAP or nerfstudio."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_from_matrix, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols import colmap
from vil_bridge.protocols import opencv as cv2

_LARGEST_JSON_BYTES: Final = 256 << 20
_MOST_VIEWS: Final = 100_000
_OPENGL_OPTICAL: Final = np.diag([1.0, -1.0, -1.0])
"""Optical axes (x right, y down, z ahead) in a camera of OpenGL (y up, z back)."""
_OLD_APPLIED: Final = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.0]])
"""Turn from COLMAP's axes to those of ``transforms.json`` that old files of ns-process-data do
not state.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ScanCamera:
    """Camera of a scan.

    Attributes:
        K: (3, 3), pixels, the middle of the first pixel is (0, 0). distortion: as OpenCV names
            them. fisheye: of OpenCV's equidistant model.
    """

    K: FloatArray
    distortion: FloatArray
    fisheye: bool = False

    def rays(self, pixels: FloatArray) -> FloatArray:
        """Return the places (n, 2) of pixels (n, 2) in the plane at distance 1, undistorted."""
        undistort = cv2.fisheye.undistortPoints if self.fisheye else cv2.undistortPoints
        found: FloatArray = np.asarray(
            undistort(pixels.reshape(-1, 1, 2), self.K, self.distortion), np.float64
        )
        return found.reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class ScanView:
    """Picture of a scan.

    Attributes:
        path: of the picture. R_scan_camera, p_scan: pose of the optical axes in the scan, in its
            unit.
    """

    name: str
    path: Path
    camera: ScanCamera
    R_scan_camera: FloatArray
    p_scan: FloatArray


def read_views(folder: Path) -> list[ScanView]:
    """Return the pictures of a folder of nerfstudio (``transforms.json``) or COLMAP (``sparse/0``).

    Raises:
        ConfigError: it is neither, or a file of it is malformed.
    """
    if (folder / "transforms.json").is_file():
        views = list(_nerfstudio_views(folder))
    elif (model := _model_folder(folder)) is not None:
        views = list(_colmap_views(folder, model))
    else:
        raise ConfigError(
            f"{folder} has no scan: neither transforms.json (nerfstudio) nor cameras and "
            "images in sparse/0 "
            "(COLMAP) is there. Give the folder that contains one of them"
        )
    if len(views) < 2:
        raise ConfigError(
            f"{folder} has {len(views)} pictures with poses: at least 2 are needed. Film "
            "more of the hall"
        )
    return views


def _model_folder(folder: Path) -> Path | None:
    places = (
        folder / "sparse" / "0",
        folder / "sparse",
        folder / "colmap" / "sparse" / "0",
        folder,
    )
    return next((place for place in places if colmap.model_files(place) is not None), None)


def _colmap_views(folder: Path, model: Path) -> Iterator[ScanView]:
    cameras, images = colmap.read_model(model)
    # It begins at these poses.
    R, t, scale = _dataparser(folder, {"applied_transform": np.eye(3, 4).tolist()})
    made = {number: _colmap_camera(camera, model) for number, camera in cameras.items()}
    for image in images:
        if image.camera not in made:
            raise ConfigError(
                f"{model}: picture {image.name!r} names camera {image.camera}, which is absent"
            )
        R_camera_scan = q_to_matrix(image.q_xyzw)
        path = folder / "images" / image.name
        p = -R_camera_scan.T @ image.t
        yield ScanView(
            image.name, path, made[image.camera], R @ R_camera_scan.T, scale * (R @ p + t)
        )


def _colmap_camera(camera: colmap.ColmapCamera, model: Path) -> ScanCamera:
    p = camera.params
    distortion = camera.params[:0]
    match camera.model:
        case "SIMPLE_PINHOLE":
            numbers = p[0], p[0], p[1], p[2]
        case "PINHOLE":
            numbers = p[0], p[1], p[2], p[3]
        case "SIMPLE_RADIAL":
            numbers = (p[0], p[0], p[1], p[2])
            distortion = p[3:4]
        case "RADIAL":
            numbers = (p[0], p[0], p[1], p[2])
            distortion = p[3:5]
        case "OPENCV" | "OPENCV_FISHEYE":
            numbers = (p[0], p[1], p[2], p[3])
            distortion = p[4:8]
        case _:
            raise ConfigError(
                f"{model}: cameras of the model {camera.model} are not read. Run COLMAP with "
                "--ImageReader.camera_model OPENCV, or undistort the pictures with "
                "colmap image_undistorter"
            )
    return _camera(numbers, distortion, fisheye=camera.model == "OPENCV_FISHEYE")


def _camera(
    intrinsics: Sequence[float], distortion: Sequence[float], *, fisheye: bool
) -> ScanCamera:
    """Return a camera.

    The programs count pixels from the corner of the first one, OpenCV from its middle.
    """
    fx, fy, cx, cy = intrinsics
    K = np.array([[fx, 0.0, cx - 0.5], [0.0, fy, cy - 0.5], [0.0, 0.0, 1.0]])
    coefficients = np.zeros(4 if fisheye else 5)
    coefficients[: len(distortion)] = distortion
    if not (np.isfinite(K).all() and np.isfinite(coefficients).all() and fx > 0.0 and fy > 0.0):
        raise ConfigError(
            "a camera of the scan has numbers that are not finite, or a focal length of 0"
        )
    return ScanCamera(K, coefficients, fisheye)


def _nerfstudio_views(folder: Path) -> Iterator[ScanView]:
    data = _json_of(folder / "transforms.json")
    R, t, scale = _dataparser(folder, data)
    frames = data.get("frames")
    if not isinstance(frames, list) or len(frames) > _MOST_VIEWS:
        raise ConfigError(
            f"{folder / 'transforms.json'}: frames must be a list of at most {_MOST_VIEWS} pictures"
        )
    for frame in frames:
        try:
            name = str(frame["file_path"])
            both = {**data, **frame}
            pose = np.array(frame["transform_matrix"], dtype=np.float64)[:3, :4]
            intrinsics = [float(both[key]) for key in ("fl_x", "fl_y", "cx", "cy")]
            fisheye = both.get("camera_model") == "OPENCV_FISHEYE"
            keys = ("k1", "k2", "k3", "k4") if fisheye else ("k1", "k2", "p1", "p2")
            camera = _camera(
                intrinsics, [float(both.get(key, 0.0)) for key in keys], fisheye=fisheye
            )
            shape = pose.shape
        except (KeyError, TypeError, ValueError, IndexError) as exc:
            raise ConfigError(
                f"{folder / 'transforms.json'}: a picture lacks a number, or it is wrong: {exc}"
            ) from exc
        if shape != (3, 4) or not np.isfinite(pose).all():
            raise ConfigError(
                f"{folder / 'transforms.json'}: {name}: transform_matrix must have 4 x 4 "
                "finite numbers"
            )
        if not _is_rotation(pose[:, :3]):
            raise ConfigError(
                f"{folder / 'transforms.json'}: {name}: transform_matrix is scaled or mirrored. "
                "Write it again with ns-process-data, without a scale"
            )
        yield ScanView(
            name,
            folder / name,
            camera,
            R @ pose[:, :3] @ _OPENGL_OPTICAL,
            scale * (R @ pose[:, 3] + t),
        )


def _dataparser(folder: Path, stored: Mapping[str, Any]) -> tuple[FloatArray, FloatArray, float]:
    """Return rotation, shift and scale from the stored poses to the axes in which nerfstudio trains
    splats, if it did.

    The file begins at the axes before ns-process-data turned them, which its ``applied_transform``
    states.
    """
    path = folder / "dataparser_transforms.json"
    if not path.is_file():
        return np.eye(3), np.zeros(3), 1.0
    data = _json_of(path)
    try:
        transform = np.array(data["transform"], dtype=np.float64)
        scale = float(data["scale"])
        applied = np.array(stored.get("applied_transform", _unstated(folder)), dtype=np.float64)
        scale /= float(stored.get("applied_scale", 1.0))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as exc:
        raise ConfigError(f"{path}: transform and scale must be numbers: {exc}") from exc
    if (
        applied.shape not in ((3, 4), (4, 4))
        or not np.isfinite(applied).all()
        or not _is_rotation(applied[:3, :3])
    ):
        raise ConfigError(
            f"{folder / 'transforms.json'}: applied_transform is not a rotation with a shift"
        )
    right = transform.shape in ((3, 4), (4, 4)) and bool(np.isfinite(transform).all())
    if not (right and scale > 0.0 and math.isfinite(scale)):
        raise ConfigError(
            f"{path}: transform must have 3 x 4 finite numbers, and scale must be positive. "
            "Copy the file of the training again"
        )
    R = transform[:3, :3]
    if not _is_rotation(R):
        raise ConfigError(
            f"{path}: transform is not a rotation with a shift. Copy the file of the training again"
        )
    R = R @ applied[:3, :3].T
    return q_to_matrix(q_from_matrix(R)), transform[:3, 3] - R @ applied[:3, 3], scale


def _unstated(folder: Path) -> FloatArray:
    """Return the ``applied_transform`` of a folder that states none, as nerfstudio does."""
    return _OLD_APPLIED if (folder / "colmap" / "sparse" / "0").exists() else np.eye(3, 4)


def _is_rotation(R: FloatArray) -> bool:
    """Return whether a matrix (3, 3) turns without a scale and without a mirror."""
    return bool(np.allclose(R @ R.T, np.eye(3), atol=1e-3) and np.linalg.det(R) > 0.0)


def _json_of(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_JSON_BYTES:
            raise ConfigError(f"{path} is larger than {_LARGEST_JSON_BYTES >> 20} MiB")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must have an object of JSON")
    return found
