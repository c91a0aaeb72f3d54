"""Section ``record`` of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from vil_bridge.config.base import StrictModel
from vil_bridge.config.sections import Section

__all__ = ["SECTION", "RecordConfig"]


class RecordConfig(StrictModel):
    """Folder and content of recordings; poses are always recorded."""

    folder: Path = Field(default=Path("recordings"), description="Folder for recordings.")
    at_start: bool = Field(
        default=False, description="Record from the start of the bridge to its end."
    )
    pictures: Literal["compensated", "raw", "both", "none"] = Field(
        default="compensated",
        description="Pictures to record: compensated (raw of cameras that have no others), raw, "
        "both or none.",
    )


SECTION: Final = Section(
    RecordConfig,
    Field(default=RecordConfig(), description="Folder and content of recordings."),
)
