"""Configuration of a virtual camera."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from vil_bridge.config.base import StrictModel, TransformConfig, check_size, custom
from vil_bridge.config.camera_presets import CameraPreset, with_preset
from vil_bridge.config.camera_sensor import ImageSensorConfig, StereoDepthConfig
from vil_bridge.config.optics import EffectsConfig, LensConfig
from vil_bridge.config.references import AUTO, WORLD
from vil_bridge.core.camera_model import CameraModel, Effects
from vil_bridge.core.types import Modality
from vil_bridge.optics.camera_sensor import ImageSensor, StereoDepth
from vil_bridge.optics.lens import rendered_model

_LIVELY_DPS: Final = 126.0
_USUAL_DELAY_MS: Final = 56.0
_LEFT_BY_PREDICTION: Final = 0.25
_WIDEST_MARGIN_DEG: Final = 15.0


class CameraConfig(StrictModel):
    """A virtual camera, on an actor or fixed in the world."""

    preset: CameraPreset | None = Field(
        default=None,
        description="A real camera, which sets all keys that are not given; none = an ideal one.",
    )
    actor: str = Field(
        default=WORLD, description="Actor that carries it; `world` = fixed in the world."
    )
    renderer: str | tuple[str, ...] = Field(
        description="Renderer that draws it; a list = the first of these that works; `auto` = the "
        "least loaded one."
    )
    T_body_camera: TransformConfig = Field(
        default=TransformConfig(),
        description="Its place on the actor, body-like axes: x looks forward, y left, z up; "
        "identity looks along x.",
    )
    stereo_baseline_m: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="Adds a second camera, NAME_right, this far to the right and alike in all "
        "else, drawn for the "
        "same instants (FlightGoggles: 0.32), metres; none = a single camera.",
    )
    width_px: int = Field(default=640, ge=16, le=8192, description="Width of the image, pixels.")
    height_px: int = Field(default=480, ge=16, le=8192, description="Height of the image, pixels.")
    fov_y_deg: float = Field(
        default=70.0,
        gt=0,
        le=170,
        description="Vertical field of view of an ideal lens, degrees; at least 3.2.",
    )
    lens: LensConfig = Field(
        default=LensConfig(), description="A calibrated lens; by default an ideal one."
    )
    effects: EffectsConfig = Field(
        default=EffectsConfig(),
        description="Motion blur, exposure, noise and what else a real camera adds.",
    )
    sensor: ImageSensorConfig | None = Field(
        default=None,
        description="Image sensor of rgb and gray, in the numbers of its data sheet; none = none.",
    )
    stereo_depth: StereoDepthConfig | None = Field(
        default=None, description="Noise and holes of a stereo camera's depths; none = true depths."
    )
    layer: str = Field(
        default="",
        max_length=64,
        description="Draw only this layer: actors = everybody who moves; empty = all.",
    )
    rate_hz: float = Field(default=60.0, gt=0, le=1000, description="Images per second, hertz.")
    modalities: tuple[Modality, ...] = Field(
        default=(Modality.RGB,),
        min_length=1,
        description="What is drawn: rgb, gray, rgba (a layer), depth (uint16, 65535 = 100 m), "
        "depth32 (metres), "
        "normals, semantic, instance, flow.",
    )
    predict: bool = Field(
        default=True, description="Render for the instant at which the image will be used."
    )
    latency_compensation: Literal["none", "rotation", "homography", "depth"] = Field(
        default="homography",
        description="Warp from the pose rendered for to the newest one; depth needs a depth "
        "modality.",
    )
    moving_actors: bool = Field(
        default=False,
        description="Warp humans and vehicles by their own motion, too; needs "
        "latency_compensation: depth and a "
        "renderer with instance ids, which it draws in addition.",
    )
    plane_depth_m: Annotated[float, Field(gt=0, le=100)] | Literal["auto", "fit"] = Field(
        default="auto",
        description="Depth of the homography's plane, metres; auto = median of the depth image, "
        "fit = a plane of any "
        "direction fitted to it, 8 without one.",
    )
    margin_deg: Annotated[float, Field(ge=0, le=45)] | Literal["auto"] = Field(
        default=0.0,
        description="Render each border farther out by this angle, so that the warp leaves none "
        "black; auto = what "
        "lively flight (126 degrees/s) needs in 56 ms and artificial_delay_ms, a quarter "
        "of it with predict.",
    )
    rolling_shutter_ms: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Show the picture as a sensor sees it that reads its rows from top to bottom "
        "in this time, "
        "milliseconds; the picture's instant is that of its middle row.",
    )
    artificial_delay_ms: float = Field(
        default=0.0, ge=0, le=1000, description="Artificial delay for demonstrations, milliseconds."
    )
    artificial_jitter_ms: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="The artificial delay differs by up to this much, milliseconds.",
    )
    max_age_ms: float = Field(
        default=500.0,
        gt=0,
        le=60_000,
        description="An image older than this is dropped, not sent, milliseconds.",
    )
    repeat_ms: float = Field(
        default=250.0,
        ge=0,
        le=1000,
        description="While the renderer is late, warp its last image again for every tick until "
        "the instant shown is "
        "this much later than the one rendered for, milliseconds; 0 = off.",
    )
    collision: bool = Field(
        default=False, description="Ask the renderer whether the camera touches something."
    )

    @property
    def by_load(self) -> bool:
        """True when the load decides which renderer draws it."""
        return self.renderer == AUTO

    def candidates(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the renderers that may draw it, out of all known ones, by preference."""
        if self.by_load:
            return tuple(known)
        return (self.renderer,) if isinstance(self.renderer, str) else self.renderer

    @model_validator(mode="before")
    @classmethod
    def _real(cls, given: Any) -> Any:
        return with_preset(given)

    @field_validator("fov_y_deg")
    @classmethod
    def _in_degrees(cls, fov_y_deg: float) -> float:
        if fov_y_deg <= math.pi:
            raise custom(
                f"{fov_y_deg:g} degrees see almost nothing. Angles are degrees: write "
                f"{math.degrees(fov_y_deg):.4g} "
                f"for {fov_y_deg:g} rad"
            )
        return fov_y_deg

    @model_validator(mode="after")
    def _on_its_actor(self) -> Self:
        if self.actor != WORLD:
            check_size(self.T_body_camera.p_m, "T_body_camera.p_m lies off the body by")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.modalities)) != len(self.modalities):
            raise custom("a modality is listed twice")
        if self.latency_compensation == "depth" and not {Modality.DEPTH, Modality.DEPTH32} & set(
            self.modalities
        ):
            raise custom("latency_compensation: depth needs depth or depth32 among the modalities")
        if self.moving_actors and self.latency_compensation != "depth":
            raise custom("moving_actors needs latency_compensation: depth")
        if self.latency_compensation == "none" and (self.margin_deg or self.rolling_shutter_ms):
            raise custom(
                "margin_deg and rolling_shutter_ms need the warp: with "
                "latency_compensation: none leave them out"
            )
        if self.artificial_jitter_ms > self.artificial_delay_ms:
            raise custom(
                "artificial_jitter_ms is more than artificial_delay_ms: no picture comes "
                "before it was drawn"
            )
        if self.lens.pinhole_px is not None and "fov_y_deg" in self.model_fields_set:
            raise custom("fov_y_deg and lens.pinhole_px both say how wide it sees: leave out one")
        if self.sensor is not None and (self.effects.noise or self.effects.auto_exposure):
            raise custom(
                "effects.noise and effects.auto_exposure are the sensor's: with `sensor` "
                "leave them out"
            )
        if self.stereo_depth is not None and self.lens.distortion != "none":
            raise custom("stereo_depth measures in rectified pictures: leave out lens.distortion")
        try:
            rendered_model(
                self.camera_model(""),
                math.radians(self.margin()),
                bends=self.latency_compensation != "none",
            )
        except ValueError as exc:
            raise custom(f"the camera {exc}: narrow it") from None
        return self

    @model_serializer(mode="wrap")
    def _without_angle(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit the angle of a calibrated lens, which would be refused when it is read again."""
        data: dict[str, Any] = written(self)
        if self.lens.pinhole_px is not None:
            data.pop("fov_y_deg", None)
        return data

    def margin(self) -> float:
        """Return the margin in degrees."""
        if self.margin_deg != "auto":
            return self.margin_deg
        turned_deg = _LIVELY_DPS * (_USUAL_DELAY_MS + self.artificial_delay_ms) / 1e3
        if self.predict:
            turned_deg *= _LEFT_BY_PREDICTION
        return min(_WIDEST_MARGIN_DEG, turned_deg)

    def right_camera(self, baseline_m: float) -> CameraConfig:
        """Return the same camera, displaced along its image's x."""
        p_m = self.T_body_camera.transform().apply(np.array([0.0, -baseline_m, 0.0]))
        place = self.T_body_camera.model_copy(update={"p_m": tuple(p_m.tolist())})
        return self.model_copy(update={"T_body_camera": place})

    def camera_model(self, name: str) -> CameraModel:
        """Return the camera as a value."""
        pinhole_px = self.lens.pinhole_px
        if pinhole_px is None:
            fov_y_rad = math.radians(self.fov_y_deg)
        else:
            fov_y_rad = 2.0 * math.atan(0.5 * self.height_px / pinhole_px[1])
        return CameraModel(
            name,
            self.width_px,
            self.height_px,
            fov_y_rad,
            pinhole_px,
            self.lens.distortion_value(),
            self._effects(),
        )

    def image_sensor(self) -> ImageSensor | None:
        """Return the image sensor as a value; None = none."""
        if self.sensor is None:
            return None
        return self.sensor.sensor(self.effects.vignetting)

    def depth_sensor(self) -> StereoDepth | None:
        """Return the depth sensor as a value; None = none."""
        if self.stereo_depth is None:
            return None
        return self.stereo_depth.sensor()

    def _effects(self) -> Effects:
        """Return the renderer's effects.

        A sensor sees less light in the corners itself, and blurs as it exposes.
        """
        if self.sensor is None:
            return self.effects.effects(self.rate_hz)
        changed: dict[str, float] = {"vignetting": 0.0}
        if self.sensor.exposure_ms != "auto" and "shutter" not in self.effects.model_fields_set:
            changed["shutter"] = min(1.0, 1e-3 * self.sensor.exposure_ms * self.rate_hz)
        return self.effects.model_copy(update=changed).effects(self.rate_hz)
