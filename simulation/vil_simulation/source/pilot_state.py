"""Pilot of a simulated vehicle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pilot = Literal["autopilot", "command", "move", "timeout"]


@dataclass(slots=True)
class PilotState:
    """Pilot of a vehicle: kind, mode and counters.

    Attributes:
        climb_goal: what the newest command of a move leads to vertically, see
            :func:`climb_goal_of`; empty = none.
    """

    mode: str
    kind: Pilot = "autopilot"
    last_step: int = -1
    commands: int = 0
    superseded: int = 0
    climb_goal: str = ""
