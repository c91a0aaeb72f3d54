"""Configuration of a camera's lens and of its sensor's effects."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from vil_bridge.config.base import StrictModel
from vil_bridge.core.camera_model import Distortion, Effects, LensModel
from vil_bridge.core.clock import NS_PER_S

_COEFFICIENTS: Final = {
    "none": "",
    "plumb_bob": "k1, k2, p1, p2, k3",
    "equidistant": "k1, k2, k3, k4",
}
_FocalPx = Annotated[float, Field(ge=1, le=100_000)]
_PlacePx = Annotated[float, Field(ge=-100_000, le=100_000)]
_Coefficient = Annotated[float, Field(ge=-1e6, le=1e6)]


class LensConfig(StrictModel):
    """A calibrated lens, as OpenCV, ROS and Kalibr write it."""

    pinhole_px: tuple[_FocalPx, _FocalPx, _PlacePx, _PlacePx] | None = Field(
        default=None,
        description="fx, fy, cx, cy in pixels, pixel centres at integers; none = an ideal lens "
        "with fov_y_deg.",
    )
    distortion: Literal["none", "plumb_bob", "equidistant"] = Field(
        default="none",
        description="Model of the distortion: none, plumb_bob (radtan) or equidistant (fisheye).",
    )
    coefficients: tuple[_Coefficient, ...] = Field(
        default=(), description="plumb_bob: k1, k2, p1, p2, k3; equidistant: k1, k2, k3, k4."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        names = _COEFFICIENTS[self.distortion]
        if len(self.coefficients) != len(names.split(", ")) * bool(names):
            wanted = f"needs the coefficients {names}" if names else "has no coefficients"
            text = f"distortion: {self.distortion} {wanted}, got {len(self.coefficients)}"
            raise PydanticCustomError("lens", "{text}", {"text": text})
        return self

    def distortion_value(self) -> Distortion | None:
        """Return the distortion for the renderers; None = none."""
        if self.distortion == "none":
            return None
        return Distortion(LensModel(self.distortion), self.coefficients)


class EffectsConfig(StrictModel):
    """Effects of sensor and lens on colour and gray pictures; the defaults add nothing."""

    shutter: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the frame interval that the shutter is open: motion blur.",
    )
    exposure_ev: float = Field(
        default=0.0, ge=-20, le=20, description="Brightness in stops, +1 doubles the light."
    )
    auto_exposure: bool = Field(
        default=False, description="Let the exposure settle to a middle-gray mean."
    )
    noise: float = Field(
        default=0.0,
        ge=0,
        le=255,
        description="Standard deviation of the noise at middle gray, levels of 255.",
    )
    vignetting: float = Field(
        default=0.0, ge=0, le=1, description="Loss of light in the corners, as a share."
    )
    dirt: float = Field(default=0.0, ge=0, le=1, description="Strength of the smudges on the lens.")

    def effects(self, rate_hz: float) -> Effects:
        """Return the effects for the renderers, of a camera with that many pictures a second."""
        frame_ns = round(NS_PER_S / rate_hz) if self.shutter else 0
        return Effects(**self.model_dump(), frame_ns=frame_ns)
