"""Model to render for a camera whose pictures are warped: it sees more, and has no lens distortion."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.lens_distortion import undistort

__all__ = ["rendered_model"]

_WIDEST_RAD: Final = math.radians(82.0)
_MOST_TIMES: Final = 3.0
_LONGEST_PX: Final = 1 << 14
_BORDER_PX: Final = 1


def rendered_model(shown: CameraModel, margin_rad: float, *, bends: bool) -> CameraModel:
    """Return the model to render for a camera that may turn by an angle and still see something everywhere.

    An ideal pinhole stays one around its centre, which is all that the original renderers can draw.

    Args:
        shown: the camera as its readers know it.
        margin_rad: angle by which each border looks farther out.
        bends: the warp bends the picture, so that it is rendered without the camera's lens.

    Raises:
        ValueError: it would see beyond 82 degrees from its axis, too wide for one plane.
    """
    if bends and shown.distortion is not None:
        return _ideal_for_lens(shown, margin_rad)
    if not margin_rad:
        return shown
    fx, fy, cx, cy = shown.intrinsics_px
    across = _margin_px(fx, max(cx + 0.5, shown.width_px - 0.5 - cx), margin_rad)
    along = _margin_px(fy, max(cy + 0.5, shown.height_px - 0.5 - cy), margin_rad)
    width_px, height_px = shown.width_px + 2 * across, shown.height_px + 2 * along
    return replace(
        shown,
        width_px=width_px,
        height_px=height_px,
        fov_y_rad=2.0 * math.atan(0.5 * height_px / fy),
        pinhole_px=None if shown.pinhole_px is None else (fx, fy, cx + across, cy + along),
    )


def _margin_px(f_px: float, half_px: float, margin_rad: float) -> int:
    return math.ceil(f_px * math.tan(_widened(math.atan(half_px / f_px), margin_rad)) - half_px - 1e-9)


def _widened(half_rad: float, margin_rad: float) -> float:
    if half_rad + margin_rad > _WIDEST_RAD:
        text = f"with a margin of {math.degrees(margin_rad):g} degrees"
        raise ValueError(f"sees {math.degrees(half_rad):.0f} degrees from its axis; {text} that is beyond 82")
    return half_rad + margin_rad


def _ideal_for_lens(shown: CameraModel, margin_rad: float) -> CameraModel:
    fx, fy, cx, cy = shown.intrinsics_px
    u, v = (np.append(np.arange(-0.5, n, 4.0), n - 0.5) for n in (shown.width_px, shown.height_px))
    bent = np.stack(np.meshgrid((u - cx) / fx, (v - cy) / fy), axis=-1).reshape(-1, 2)
    ideal = np.abs(undistort(shown.distortion, bent))
    if np.isnan(ideal).all():
        raise ValueError("nothing is seen through lens.coefficients")
    half = [math.tan(_widened(math.atan(float(extent)), margin_rad)) for extent in np.nanmax(ideal, axis=0)]
    limits = (min(_MOST_TIMES * n, _LONGEST_PX) / 2.0 for n in (shown.width_px, shown.height_px))
    f_px = min(fy, *(limit / extent for limit, extent in zip(limits, half, strict=True)))
    width_px, height_px = (2 * (math.ceil(extent * f_px) + _BORDER_PX) for extent in half)
    return replace(
        shown,
        width_px=width_px,
        height_px=height_px,
        fov_y_rad=2.0 * math.atan(0.5 * height_px / f_px),
        pinhole_px=None,
        distortion=None,
    )
