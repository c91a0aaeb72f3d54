"""Rendered pictures as AirSim's payloads.

PNG, B G R bytes, or floats (airsim_rpc, image semantics).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.protocols import opencv as cv2
from vil_simulation.airsim.msgpack_rpc import Packed
from vil_simulation.airsim.object_ids import PALETTE

_FARTHEST_M: Final = 65504.0
"""Largest depth: AirSim reads it from floats of 16 bits."""
_VIS_M: Final = 100.0
_BASELINE_M: Final = 0.25
_FLOAT32: Final = np.dtype([("tag", "u1"), ("value", ">f4")])
_UINT32: Final = np.dtype([("tag", "u1"), ("value", ">u4")])
_INT16: Final = np.dtype([("tag", "u1"), ("value", ">i2")])
_FLOW_SCALE: Final = 127.0

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of picture.

    Attributes:
        modality: of the renderer. as_bytes: to (h, w, 3) in R, G, B. as_floats: to (h, w).
    """

    modality: Modality
    as_bytes: Callable[[ImageArray, CameraModel, npt.NDArray[np.int16]], Bytes]
    as_floats: Callable[[ImageArray, CameraModel, npt.NDArray[np.int16]], Floats]


def modality_of(image_type: int) -> Modality:
    """Return the renderer's modality of a kind of picture.

    Raises ValueError: there is no such kind.
    """
    if image_type not in _KINDS:
        raise ValueError(f"image type {image_type} is unknown; 0 to 9 are drawn here")
    return _KINDS[image_type].modality


def png_of(
    image_type: int, pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]
) -> memoryview:
    """Return a picture as PNG."""
    rgb = _KINDS[image_type].as_bytes(pixels, camera, ids)
    encoded = cv2.imencode(
        ".png", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGRA), [cv2.IMWRITE_PNG_COMPRESSION, 1]
    )[1]
    png: memoryview = encoded.data
    return png


def bgr_of(
    image_type: int, pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]
) -> memoryview:
    """Return a picture as B, G, R bytes, top row first."""
    rgb = _KINDS[image_type].as_bytes(pixels, camera, ids)
    bgr: Bytes = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
    return bgr.data.cast("B")


def floats_of(
    image_type: int, pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]
) -> Packed:
    """Return a picture as an array of float32, row by row, ready for the wire."""
    return packed_floats(_KINDS[image_type].as_floats(pixels, camera, ids))


def packed_floats(values: npt.NDArray[np.floating]) -> Packed:
    """Return numbers as a MessagePack array of float32."""
    flat = np.empty(values.size, _FLOAT32)
    flat["tag"], flat["value"] = 0xCA, values.reshape(-1)
    return Packed(_array_head(values.size), flat.view(np.uint8).data)


def packed_indices(values: npt.NDArray[np.integer]) -> Packed:
    """Return numbers from 0 as a MessagePack array of uint32."""
    flat = np.empty(values.size, _UINT32)
    flat["tag"] = 0xCE
    flat["value"] = values.reshape(-1)
    return Packed(_array_head(values.size), flat.view(np.uint8).data)


def packed_ids(values: npt.NDArray[np.integer]) -> Packed:
    """Return object ids as a MessagePack array of int16."""
    flat = np.empty(values.size, _INT16)
    flat["tag"] = 0xD1
    flat["value"] = values.reshape(-1)
    return Packed(_array_head(values.size), flat.view(np.uint8).data)


def _array_head(length: int) -> bytes:
    return b"\xdd" + length.to_bytes(4, "big")


NO_FLOATS: Final = Packed(b"\x90")


def _gray(values: npt.NDArray[np.floating]) -> Bytes:
    """Return 0 to 1 as gray (h, w, 3)."""
    return np.repeat((np.clip(values, 0.0, 1.0) * 255.0).astype(np.uint8)[:, :, None], 3, axis=2)


def _scene(pixels: ImageArray, _camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Bytes:
    return pixels.astype(np.uint8, copy=False)


def _scene_floats(pixels: ImageArray, _camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Floats:
    return (pixels[:, :, 0] / np.float32(255.0)).astype(np.float32)


def _planar(pixels: ImageArray, _camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Floats:
    return np.minimum(pixels.astype(np.float32, copy=False), np.float32(_FARTHEST_M))


def _perspective(pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]) -> Floats:
    fx, fy, cx, cy = camera.intrinsics_px
    u = (np.arange(camera.width_px, dtype=np.float32) - np.float32(cx)) / np.float32(fx)
    v = (np.arange(camera.height_px, dtype=np.float32) - np.float32(cy)) / np.float32(fy)
    length = np.sqrt(1.0 + u[None, :] ** 2 + v[:, None] ** 2)
    depth = _planar(pixels, camera, ids)
    return np.minimum(depth * length, np.float32(_FARTHEST_M)).astype(np.float32)


def _disparity(pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]) -> Floats:
    shift_px = (
        camera.intrinsics_px[0] * _BASELINE_M / np.maximum(_planar(pixels, camera, ids), 1e-3)
    )
    return (shift_px / camera.width_px).astype(np.float32)


def _depth_shown(pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]) -> Floats:
    return (_planar(pixels, camera, ids) / np.float32(_VIS_M)).astype(np.float32)


def _object_ids(pixels: ImageArray, ids: npt.NDArray[np.int16]) -> npt.NDArray[np.intp]:
    """Return the ids of a picture of instances; hidden and unknown ones are 0."""
    known = np.minimum(pixels, len(ids) - 1) if len(ids) else np.zeros_like(pixels)
    found = ids[known] if len(ids) else known
    return np.where((pixels < len(ids)) & (found > 0), found, 0).astype(np.intp)


def _segmented(pixels: ImageArray, _camera: CameraModel, ids: npt.NDArray[np.int16]) -> Bytes:
    colours: Bytes = PALETTE[_object_ids(pixels, ids)]
    return colours


def _segmented_floats(
    pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]
) -> Floats:
    return _scene_floats(_segmented(pixels, camera, ids), camera, ids)


def _infrared_floats(
    pixels: ImageArray, _camera: CameraModel, ids: npt.NDArray[np.int16]
) -> Floats:
    shares: Floats = (_object_ids(pixels, ids) / np.float32(255.0)).astype(np.float32)
    return shares


def _normals(pixels: ImageArray, _camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Bytes:
    coded = np.clip(0.5 * (pixels.astype(np.float32) + 1.0), 0.0, 1.0) * 255.0
    coded[~pixels.any(axis=2)] = 0.0
    shown: Bytes = coded.astype(np.uint8)
    return shown


def _normal_floats(pixels: ImageArray, camera: CameraModel, ids: npt.NDArray[np.int16]) -> Floats:
    return _scene_floats(_normals(pixels, camera, ids), camera, ids)


def _flow(pixels: ImageArray, camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Bytes:
    """Return flow as colours: x in red, y in green, half = none, the picture's width = full."""
    share = pixels / np.float32(camera.width_px)
    coded = np.clip(128.0 + _FLOW_SCALE * share, 0.0, 255.0).astype(np.uint8)
    return np.dstack((coded, np.zeros(coded.shape[:2], np.uint8)))


def _flow_shown(pixels: ImageArray, _camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Bytes:
    """Return flow as hue (direction) and value (length over the longest)."""
    length, angle = cv2.cartToPolar(
        np.ascontiguousarray(pixels[:, :, 0]), np.ascontiguousarray(pixels[:, :, 1])
    )
    hsv = np.zeros((*length.shape, 3), np.uint8)
    hsv[:, :, 0] = angle * (90.0 / np.pi)
    hsv[:, :, 1] = 255
    hsv[:, :, 2] = np.clip(255.0 * length / max(float(length.max()), 1e-6), 0.0, 255.0)
    shown: Bytes = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    return shown


def _flow_floats(pixels: ImageArray, _camera: CameraModel, _ids: npt.NDArray[np.int16]) -> Floats:
    return pixels[:, :, 0].astype(np.float32)


_KINDS: Final[Mapping[int, _Kind]] = {
    0: _Kind(Modality.RGB, _scene, _scene_floats),
    1: _Kind(Modality.DEPTH32, lambda p, c, i: _gray(_depth_shown(p, c, i)), _planar),
    2: _Kind(Modality.DEPTH32, lambda p, c, i: _gray(_perspective(p, c, i) / _VIS_M), _perspective),
    3: _Kind(Modality.DEPTH32, lambda p, c, i: _gray(_depth_shown(p, c, i)), _depth_shown),
    4: _Kind(Modality.DEPTH32, lambda p, c, i: _gray(_disparity(p, c, i)), _disparity),
    5: _Kind(Modality.INSTANCE, _segmented, _segmented_floats),
    6: _Kind(Modality.NORMALS, _normals, _normal_floats),
    7: _Kind(Modality.INSTANCE, lambda p, c, i: _gray(_infrared_floats(p, c, i)), _infrared_floats),
    8: _Kind(Modality.FLOW, _flow, _flow_floats),
    9: _Kind(Modality.FLOW, _flow_shown, _flow_floats),
}
