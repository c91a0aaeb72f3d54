"""``vil-bridge identify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def identify(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Recording of ours (MCAP).")
    ],
    actor: Annotated[str, typer.Option(help="The tracked vehicle.")],
    twin: Annotated[
        str, typer.Option(help="The simulated vehicle whose commands and model are taken.")
    ],
    fit: Annotated[
        list[str] | None,
        typer.Option(
            help="Parameter to fit, may be repeated; none = mass, drag, motor constants and delay."
        ),
    ] = None,
    window_s: Annotated[
        float, typer.Option("--window", min=0.2, max=5, help="Length of a rollout, seconds.")
    ] = 0.6,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find mass, drag, motor constants and delay of a vehicle from a recorded flight, with their
    uncertainty.

    The twin's model is fitted to the poses of the vehicle under the recorded commands. It prints
    the values to give the twin: `vil-bridge identify flight.mcap --actor drone --twin drone_sim`.
    """
    import json

    from vil_bridge.core.errors import ConfigError
    from vil_simulation.twins import identification
    from vil_simulation.twins.recorded_flight import recorded_flight

    flight = recorded_flight(file, actor, twin)
    try:
        found = identification.identify(*flight, tuple(fit or ()), window_s=window_s)
    except ValueError as exc:
        raise ConfigError(f"{file}: {exc}") from None
    if as_json:
        typer.echo(json.dumps(identification.figures_of_model(found), indent=2))
        return
    typer.echo(
        f"{found.windows} windows of {window_s:g} s; left: {1e3 * found.position_m:.2f} mm by axis"
    )
    for name, value in found.parameters.items():
        typer.echo(
            f"  {name:24} {value.value:12.5g} +- {value.sd:.2g}   (before {value.start:.5g})"
        )
