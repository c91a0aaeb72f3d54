"""Messages of the live feed."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from vil_bridge.web.schemas.body import Body

_POSES_HZ: Final = 30.0

_PREVIEWS_HZ: Final = 15.0

_MOST_PREVIEWS: Final = 8

_Key = tuple[str, str]
"""Camera and variant."""


class PreviewRequest(Body):
    """Pictures of one camera."""

    camera: str = Field(min_length=1, max_length=80)
    variant: Literal["compensated", "raw"] = "compensated"
    hz: Annotated[float, Field(gt=0, le=_PREVIEWS_HZ)] = 10.0


class Subscription(Body):
    """Subscription of a client, which replaces the previous one."""

    poses_hz: Annotated[float, Field(ge=0, le=_POSES_HZ)] = 0.0
    previews: Annotated[list[PreviewRequest], Field(max_length=_MOST_PREVIEWS)] = Field(default=[])
