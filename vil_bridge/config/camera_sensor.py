"""Configuration of the sensor of a camera, and of a stereo depth camera's matching."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.optics.camera_sensor import ImageSensor, Mosaic, StereoDepth

_Response = Annotated[float, Field(ge=0.05, le=20)]


class ImageSensorConfig(StrictModel):
    """An image sensor with its lens, in the numbers of data sheets."""

    mosaic: Mosaic = Field(
        default=Mosaic.MONO,
        description="Colour filters: mono, or the first 2x2 pixels of a Bayer pattern.",
    )
    pixel_um: float = Field(default=3.0, ge=0.5, le=50, description="Side of a pixel, micrometres.")
    quantum_efficiency: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Electrons per photon at 555 nm, of green pixels where there are colours.",
    )
    full_well_e: float = Field(
        default=10_000.0, ge=100, le=1e6, description="Electrons that a pixel holds."
    )
    read_noise_e: float = Field(
        default=5.0, ge=0, le=1e4, description="Standard deviation, electrons."
    )
    dark_current_e_s: float = Field(
        default=10.0, ge=0, le=1e6, description="Electrons per second without light."
    )
    response_nonuniformity: float = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="Standard deviation of the pixels' response, as a share.",
    )
    dark_nonuniformity_e: float = Field(
        default=1.0,
        ge=0,
        le=1e4,
        description="Standard deviation of the pixels' offsets, electrons.",
    )
    hot_pixels: float = Field(
        default=0.0, ge=0, le=0.1, description="Share of pixels with 2000 times the dark current."
    )
    adc_bits: int = Field(
        default=10, ge=8, le=16, description="Bits of the analogue-to-digital converter."
    )
    f_number: float = Field(default=2.0, ge=0.5, le=64, description="Of the lens.")
    illuminance_lux: float = Field(
        default=500.0,
        gt=0,
        le=1e6,
        description="Light on the scene with which white is drawn white; 500 = an office.",
    )
    exposure_ms: Annotated[float, Field(ge=0.001, le=1000)] | Literal["auto"] = Field(
        default="auto",
        description="Exposure time, milliseconds; auto = a middle-gray mean, time first, then "
        "gain.",
    )
    shortest_exposure_ms: float = Field(
        default=0.1, ge=0.001, le=1000, description="Limit of auto, milliseconds."
    )
    longest_exposure_ms: float = Field(
        default=20.0, ge=0.001, le=1000, description="Limit of auto, milliseconds."
    )
    gain_db: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="Analogue gain, decibels; with exposure_ms: auto its upper limit.",
    )
    channel_response: tuple[_Response, _Response, _Response] = Field(
        default=(0.6, 1.0, 0.7),
        description="Of the red, green and blue pixels to white light, green = 1.",
    )
    white_balance: Literal["auto", "fixed", "off"] = Field(
        default="auto", description="auto = gray world, fixed = to channel_response, off = none."
    )
    chromatic_aberration_px: float = Field(
        default=0.0,
        ge=-20,
        le=20,
        description="Red is farther from the middle than green in the corners, blue nearer.",
    )
    glare: float = Field(
        default=0.0, ge=0, le=0.5, description="Share of light that the lens scatters: veil, flare."
    )
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="Compress each picture to JPEG in the camera, 1..100; none = never.",
    )

    @model_validator(mode="after")
    def _limits(self) -> Self:
        if self.shortest_exposure_ms > self.longest_exposure_ms:
            raise custom("shortest_exposure_ms is more than longest_exposure_ms: exchange them")
        return self

    def sensor(self, vignetting: float) -> ImageSensor:
        """Return the sensor as a value, with the lens' loss of light in the corners."""
        given = self.model_dump(
            exclude={"exposure_ms", "shortest_exposure_ms", "longest_exposure_ms"}
        )
        return replace(
            ImageSensor(**given),
            exposure_s=None if self.exposure_ms == "auto" else 1e-3 * self.exposure_ms,
            shortest_s=1e-3 * self.shortest_exposure_ms,
            longest_s=1e-3 * self.longest_exposure_ms,
            vignetting=vignetting,
        )


class StereoDepthConfig(StrictModel):
    """A depth camera that matches two pictures: noise, steps and holes of its depths."""

    baseline_m: float = Field(gt=0, le=10, description="Distance of its two cameras, metres.")
    subpixel_px: float = Field(
        ge=0, le=10, description="Standard deviation of the disparity, pixels."
    )
    correlation_px: float = Field(
        default=1.0,
        ge=0,
        le=20,
        description="Size of the patches with the same error (their sigma), pixels.",
    )
    disparity_step_px: float = Field(
        default=1.0 / 32.0, ge=0, le=1, description="Steps of the disparity, pixels."
    )
    most_disparity_px: float = Field(
        default=126.0,
        gt=0,
        le=4096,
        description="Largest disparity that is searched, pixels: the least distance.",
    )
    most_m: float = Field(
        default=10.0, gt=0, le=100, description="Beyond this there is no depth, metres."
    )
    grazing_deg: float = Field(
        default=80.0,
        gt=0,
        lt=90,
        description="Surfaces seen more obliquely than this have no depth, degrees.",
    )
    least_contrast: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Plain parts have no depth, levels of 255; 0 = it projects a pattern.",
    )

    def sensor(self) -> StereoDepth:
        """Return the sensor as a value."""
        return StereoDepth(**self.model_dump())
