"""Bodies of the vehicle routes."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from vil_bridge.core.vehicle_commands import Action
from vil_bridge.web.schemas.body import Body

__all__ = []

_MOST_VALUES: Final = 64

_Numbers = Annotated[list[float], Field(max_length=_MOST_VALUES)]


class CommandBody(Body):
    """Command of a pilot."""

    action: Action = Field(default="fly", description="fly = the values; arm, disarm; reset = back to the start.")
    mode: str = Field(default="", max_length=64, description="Of the values; empty = the one in use.")
    values: _Numbers | dict[str, float | _Numbers] = Field(
        default=[], description="In the mode's order, or by its fields' names."
    )
    t_ns: int | None = Field(default=None, description="Bridge time from which it holds, nanoseconds; null = now.")
