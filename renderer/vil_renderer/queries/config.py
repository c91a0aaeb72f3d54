"""Configuration of a scene that answers questions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_bridge.config.base import NameOrFile, PluginConfig

FARTHEST_DEPTH_M = 65504.0
"""Largest finite half-precision number, which AirSim returns where a depth picture hits nothing."""


class EmbeddedQueriesConfig(PluginConfig):
    """The embedded renderer in a process of its own."""

    type: Literal["embedded"] = "embedded"
    scene: NameOrFile = Field(
        default="hall", min_length=1, description="A shipped scene's name, or a scene file."
    )
    profile: Literal["low", "medium", "high", "ultra"] = Field(
        default="low", description="Quality of the pictures."
    )
    device: int | None = Field(
        default=None, ge=0, description="GPU, as CUDA counts; none = the first one, or the CPU."
    )
    depth_reach_m: float = Field(
        default=FARTHEST_DEPTH_M,
        gt=0.0,
        le=FARTHEST_DEPTH_M,
        description="Value of DEPTH32 pictures where nothing is hit, metres; surfaces beyond have "
        "it too.",
    )
