"""Choices of ``vil-bridge sitl``, without what is slow to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Program = Literal["px4", "ardupilot", "betaflight"]


@dataclass(frozen=True, slots=True)
class SitlOptions:
    """Choices of ``vil-bridge sitl``.

    Attributes:
        program: that flies. count: vehicles, each with a program of its own.
        command: the program's command line; empty = it is started elsewhere. folder: in which it
            runs.
        indoors: motion capture's pose instead of a satellite receiver. scene: walls; empty = a
            floor only.
        rate_hz: samples per second of simulated time, which the steps are a multiple of; None = the
            program's own.
        speed: simulated seconds per second, at most. http_port: of the status page, 0 = any free
            one.
    """

    program: Program
    count: int = 1
    command: str = ""
    folder: str = "autopilots/{vehicle}"
    indoors: bool = False
    scene: str = ""
    rate_hz: int | None = None
    speed: float = 1.0
    seed: int = 0
    http_port: int = 8080
