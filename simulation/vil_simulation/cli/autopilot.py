"""``vil-bridge lab autopilot``."""

from __future__ import annotations

from typing import Annotated

import typer


def autopilot(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="px4|ardupilot|betaflight [OPTIONS]")
    ] = None,
) -> None:
    """Stand in for PX4, ArduPilot or Betaflight.

    Answer a simulator, fly, end at the first violation.
    """
    from vil_simulation.autopilots.stand_ins.command_line import run_stand_in

    raise typer.Exit(run_stand_in(words or ()))
