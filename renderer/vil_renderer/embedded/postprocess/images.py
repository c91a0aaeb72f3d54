"""From the outputs of a pass to the pictures that views request: effects, lens, encodings."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import BoolArray, ImageArray, Modality
from vil_renderer.embedded.engine.targets import PassOutput, RenderedView
from vil_renderer.embedded.postprocess.camera_effects import AutoExposure, blurred, noisy, with_optics
from vil_renderer.embedded.postprocess.lens_rendering import lens_of
from vil_renderer.embedded.postprocess.modalities import gray8, known_flow, outputs_for, read_modalities

__all__ = ["drawn_camera", "output_images", "outputs_needed"]

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


def output_images(
    view: RenderedView,
    camera: CameraModel,
    modalities: AbstractSet[Modality],
    *,
    motion_known: bool,
    exposure: AutoExposure,
    t_ns: int,
) -> dict[Modality, tuple[ImageArray, BoolArray | None]]:
    """Return the pictures of each modality, with the mask of flow.

    Args:
        view: the images drawn by :func:`drawn_camera`.
        camera: as asked for, lens and effects included.
        modalities: what is wanted.
        motion_known: False = the motion since the camera's previous picture is unknown.
        exposure: of this camera; it learns from the picture where the camera has automatic exposure.
        t_ns: instant of the picture; also what the noise depends on.
    """
    made = read_modalities(view, modalities - _COLOURS - {Modality.FLOW})
    motion = known_flow(view.flow_px()) if PassOutput.FLOW in view.outputs else None
    if motion is not None and not motion_known:
        motion[0][...], motion[1][...] = 0.0, False
    if motion is not None and Modality.FLOW in modalities:
        made[Modality.FLOW] = motion
    if modalities & _COLOURS:
        rgb = view.rgb()
        if motion is not None and camera.effects.shutter > 0.0:
            rgb = blurred(rgb, *motion, camera.effects.shutter)
        made[Modality.RGB] = rgb, None
    lens = lens_of(camera)
    if lens is not None:
        made = {modality: lens.bend(modality, *pixels) for modality, pixels in made.items()}
    if Modality.RGB in made:
        rgb = with_optics(np.asarray(made[Modality.RGB][0]), camera)
        if camera.effects.auto_exposure:
            exposure.adapt(rgb, t_ns)
        rgb = noisy(rgb, camera.effects, t_ns)
        made[Modality.RGB] = rgb, None
        if Modality.GRAY in modalities:
            made[Modality.GRAY] = gray8(rgb), None
    return made
