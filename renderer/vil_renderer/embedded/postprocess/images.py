"""From the outputs of a pass to the pictures that views request: effects, lens, encodings."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M, BoolArray, ImageArray, Modality
from vil_renderer.embedded.engine.shader_frame import NO_FLOW
from vil_renderer.embedded.engine.targets import PassOutput, RenderedView
from vil_renderer.embedded.postprocess.camera_effects import (
    AutoExposure,
    blurred,
    noisy,
    with_optics,
)
from vil_renderer.embedded.postprocess.lens_rendering import lens_of

FULL_SCALE_M: Final = 100.0
"""Reach of depth pictures, unless DEPTH32 is asked to reach farther."""
_OUTPUT_OF: Final = {
    Modality.RGB: PassOutput.COLOUR,
    Modality.RGBA: PassOutput.COLOUR,
    Modality.GRAY: PassOutput.COLOUR,
    Modality.DEPTH: PassOutput.Z,
    Modality.DEPTH32: PassOutput.Z,
    Modality.NORMALS: PassOutput.NORMAL,
    Modality.SEMANTIC: PassOutput.IDS,
    Modality.INSTANCE: PassOutput.IDS,
    Modality.FLOW: PassOutput.FLOW,
}


def outputs_for(modalities: Iterable[Modality]) -> PassOutput:
    """Return the outputs that a pass has to write."""
    wanted = PassOutput(0)
    for modality in modalities:
        wanted |= _OUTPUT_OF[modality]
    return wanted


def read_modalities(
    view: RenderedView, modalities: Iterable[Modality], depth_reach_m: float = FULL_SCALE_M
) -> dict[Modality, tuple[ImageArray, BoolArray | None]]:
    """Return pixels of each modality except colour and flow; each output is read once."""
    wanted = set(modalities)
    made: dict[Modality, ImageArray] = {}
    if Modality.RGBA in wanted:
        made[Modality.RGBA] = view.rgba()
    if wanted & {Modality.DEPTH, Modality.DEPTH32}:
        z_m = view.z_m()
        if Modality.DEPTH32 in wanted:
            made[Modality.DEPTH32] = depth32(z_m, depth_reach_m)
        if Modality.DEPTH in wanted:
            made[Modality.DEPTH] = depth16(z_m)
    if Modality.NORMALS in wanted:
        made[Modality.NORMALS] = view.normals()
    if wanted & {Modality.SEMANTIC, Modality.INSTANCE}:
        ids = view.ids()
        if Modality.SEMANTIC in wanted:
            made[Modality.SEMANTIC] = (ids >> np.uint32(16)).astype(np.uint16)
        if Modality.INSTANCE in wanted:
            made[Modality.INSTANCE] = ids.astype(np.uint16)
    return {modality: (pixels, None) for modality, pixels in made.items()}


def gray8(rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the luma of sRGB values (h, w, 3): (77 R + 150 G + 29 B) / 256, shape (h, w)."""
    wide = rgb[..., 0].astype(np.uint16)
    wide *= 77
    wide += rgb[..., 1] * np.uint16(150)
    wide += rgb[..., 2] * np.uint16(29)
    wide >>= 8
    return wide.astype(np.uint8)


def depth16(z_m: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Convert metres (h, w) to metres x 655.35, rounded; 65535 = 100 m and beyond.

    Overwrites its argument.
    """
    z_m *= np.float32(DEPTH_UNITS_PER_M)
    z_m += np.float32(0.5)
    np.minimum(z_m, np.float32(DEPTH_NO_HIT), out=z_m)
    return z_m.astype(np.uint16)


def depth32(z_m: npt.NDArray[np.float32], reach_m: float) -> npt.NDArray[np.float32]:
    """Return metres (h, w), the reach beyond that and without a surface."""
    return np.minimum(z_m, np.float32(reach_m))


def known_flow(flow_px: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], BoolArray]:
    """Return flow (h, w, 2) with 0 where unknown, and its mask (h, w). Overwrites its argument."""
    valid: BoolArray = flow_px[..., 0] < 0.5 * NO_FLOW
    flow_px[~valid] = 0.0
    return flow_px, valid


_COLOURS: Final = frozenset({Modality.RGB, Modality.GRAY})


def drawn_camera(camera: CameraModel) -> CameraModel:
    """Return the ideal pinhole that is drawn for a camera.

    Raises:
        RendererError: its lens sees more than a plane can hold.
    """
    lens = lens_of(camera)
    return camera if lens is None else lens.ideal


def outputs_needed(camera: CameraModel, modalities: AbstractSet[Modality]) -> PassOutput:
    """Return the outputs of the pass, motion included if the shutter blurs it."""
    outputs = outputs_for(modalities)
    if camera.effects.shutter > 0.0 and modalities & _COLOURS:
        outputs |= PassOutput.FLOW
    return outputs


def _open_share(camera: CameraModel, interval_ns: int | None) -> float:
    """Return the shutter's share of the time since the previous picture, which may be several
    frame intervals.
    """
    effects = camera.effects
    return effects.shutter * (
        effects.frame_ns / interval_ns if effects.frame_ns and interval_ns else 1.0
    )


def output_images(
    view: RenderedView,
    camera: CameraModel,
    modalities: AbstractSet[Modality],
    *,
    interval_ns: int | None,
    exposure: AutoExposure,
    t_ns: int,
    depth_reach_m: float = FULL_SCALE_M,
    tone_curve: bool = False,
) -> dict[Modality, tuple[ImageArray, BoolArray | None]]:
    """Return the pictures of each modality, with the mask of flow.

    Args:
        view: the images drawn by :func:`drawn_camera`.
        camera: as asked for, lens and effects included.
        modalities: the requested ones.
        interval_ns: time since the camera's previous picture; None = the motion since then is
            unknown.
        exposure: of this camera; it adapts to the picture if the camera has automatic exposure.
        t_ns: instant of the picture; also the seed of the noise.
        depth_reach_m: value of DEPTH32 where nothing is hit.
        tone_curve: colours were drawn with it.
    """
    made = read_modalities(view, modalities - _COLOURS - {Modality.FLOW}, depth_reach_m)
    motion = known_flow(view.flow_px()) if PassOutput.FLOW in view.outputs else None
    if motion is not None and interval_ns is None:
        motion[0][...] = 0.0
        motion[1][...] = False
    if motion is not None and Modality.FLOW in modalities:
        made[Modality.FLOW] = motion
    if modalities & _COLOURS:
        rgb = view.rgb()
        if motion is not None and camera.effects.shutter > 0.0:
            rgb = blurred(rgb, *motion, _open_share(camera, interval_ns), tone_curve=tone_curve)
        made[Modality.RGB] = rgb, None
    lens = lens_of(camera)
    if lens is not None:
        unseen = {Modality.DEPTH32: depth_reach_m}
        made = {
            modality: lens.bend(modality, *pixels, unseen.get(modality))
            for modality, pixels in made.items()
        }
    if Modality.RGB in made:
        rgb = with_optics(np.asarray(made[Modality.RGB][0]), camera, tone_curve=tone_curve)
        if camera.effects.auto_exposure:
            exposure.adapt(rgb, t_ns, tone_curve=tone_curve)
        rgb = noisy(rgb, camera.effects, t_ns)
        made[Modality.RGB] = rgb, None
        if Modality.GRAY in modalities:
            made[Modality.GRAY] = gray8(rgb), None
    return made
