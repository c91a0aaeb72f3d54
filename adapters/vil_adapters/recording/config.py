"""Configuration of recordings as a source."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vil_bridge.config.base import ExistingPath, SourceConfigBase


class RecordingConfig(SourceConfigBase):
    """Play a recording as if its room were live."""

    follows_bridge_time: ClassVar[bool] = True

    type: Literal["motion-file"] = "motion-file"
    path: ExistingPath = Field(description="The file, or a folder that holds mav0 (EuRoC).")
    format: Literal["auto", "euroc", "tum", "bvh", "c3d", "motive-csv", "trc", "nexus-csv"] = Field(
        default="auto", description="What it is; auto = found by its name and first line."
    )
    subject: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the one body or skeleton in formats without names (EuRoC, TUM, BVH); "
        "none = the file's.",
    )
    unit_m: float | None = Field(
        default=None,
        gt=0.0,
        le=1000.0,
        description="Metres per unit of length; none = as in the file (BVH has none).",
    )
    up_axis: Literal["auto", "y", "z"] = Field(
        default="auto",
        description="Up axis of the file; auto = as in the file, else y for BVH, TRC and Motive, z "
        "for the others.",
    )
    speed: float = Field(
        default=1.0, gt=0.0, le=100.0, description="How fast it is played; 1 = as it was recorded."
    )
    start: Literal["at_once", "first_picture"] = Field(
        default="at_once",
        description="When it begins; first_picture = once a renderer draws. Until then the first "
        "row is shown.",
    )
    loop: bool = Field(default=True, description="Begin again after the end.")
