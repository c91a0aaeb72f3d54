"""Section ``maps`` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import numpy as np
from pydantic import Field, model_validator

from vil_bridge.config.base import Name, StrictModel, custom
from vil_bridge.config.references import ReferenceProblem, camera_entries, entries, unknown
from vil_bridge.config.sections import Section
from vil_bridge.core.errors import ConfigError
from vil_bridge.interfaces.voxel_box import check_box

__all__ = ["SECTION", "OccupancyConfig"]

_MOST_CELLS: Final = 500
_DEPTHS: Final = {"depth", "depth32"}
_Corner = tuple[float, float, float]


class OccupancyConfig(StrictModel):
    """A map of occupied and free voxels, which grows from depth pictures while the bridge runs."""

    cameras: tuple[str, ...] = Field(
        min_length=1, max_length=16, description="Cameras whose depth or depth32 pictures it takes."
    )
    min_m: _Corner = Field(description="Lowest corner of its box, world, metres.")
    max_m: _Corner = Field(
        description="Highest corner of its box, world, metres; at most 30 million voxels."
    )
    resolution_m: float = Field(default=0.1, ge=0.01, le=10, description="Side of a voxel, metres.")
    range_m: float = Field(
        default=10.0,
        gt=0,
        le=99,
        description="Longest trusted depth; longer ones clear the way up to it, metres.",
    )
    rate_hz: float = Field(
        default=10.0, gt=0, le=200, description="Pictures of each camera per second at most, hertz."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            check_box(self.resolution_m, np.array(self.min_m), np.array(self.max_m))
        except ConfigError as exc:
            raise custom(str(exc)) from None
        if self.range_m / self.resolution_m > _MOST_CELLS:
            raise custom(
                f"a range of {self.range_m:g} m has more than {_MOST_CELLS} voxels: go "
                "coarser or nearer"
            )
        return self


def _references(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    """Yield cameras that do not exist, or have no depth pictures."""
    cameras = camera_entries(config)
    for name, section in entries(config, "maps").items():
        names = section.get("cameras")
        if not isinstance(names, list | tuple):
            continue
        for i, camera in enumerate(names):
            path = ("maps", name, "cameras", i)
            yield from unknown({"cameras": cameras}, "cameras", camera, path)
            offered: Any = None
            if isinstance(camera, str) and camera in cameras:
                offered = cameras[camera].get("modalities")
            if isinstance(offered, list | tuple) and not _DEPTHS & set(map(str, offered)):
                yield ReferenceProblem(
                    path, f"{camera!r} has no depth pictures; add depth32 to its modalities"
                )


SECTION: Final = Section(
    dict[Name, OccupancyConfig],
    Field(
        default={},
        max_length=8,
        description="Occupancy maps by name, which grow from depth pictures.",
    ),
    _references,
)
