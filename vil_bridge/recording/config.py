"""Configuration of a source that replays a recording of a bridge."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vil_bridge.config.base import ExistingPath, SourceConfigBase


class McapConfig(SourceConfigBase):
    """Replay one source of a recording of `vil-bridge record`."""

    follows_bridge_time: ClassVar[bool] = True

    type: Literal["replay"] = "replay"
    path: ExistingPath = Field(description="The recording (.mcap).")
    source: str | None = Field(
        default=None,
        min_length=1,
        description="Its name in the recording; none = this section's name.",
    )
    rate: float = Field(default=1.0, gt=0.0, le=100.0, description="Recorded seconds per second.")
    loop: bool = Field(default=False, description="Begin again after the end.")
