"""``vil-bridge sitl``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from vil_simulation.sitl.options import SitlOptions


def sitl(
    program: Annotated[
        Literal["px4", "ardupilot", "betaflight"], typer.Argument(help="The autopilot's program.")
    ],
    count: Annotated[
        int, typer.Option(min=1, max=50, help="Vehicles, each with a program of its own.")
    ] = 1,
    command: Annotated[
        str,
        typer.Option(
            help="Command line that starts the program; {instance} is filled in. Empty = you "
            "start it."
        ),
    ] = "",
    folder: Annotated[
        str, typer.Option(help="Folder in which the program runs; {vehicle} is filled in.")
    ] = "autopilots/{vehicle}",
    indoors: Annotated[
        bool,
        typer.Option(
            "--indoors", help="Motion capture instead of a satellite receiver (px4, ardupilot)."
        ),
    ] = False,
    scene: Annotated[
        str, typer.Option(help="Walls: a scene's name or file; empty = a floor only.")
    ] = "",
    rate_hz: Annotated[
        int | None,
        typer.Option(
            min=50, max=4000, help="Samples per simulated second; none = the program's own."
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option(min=0.01, max=100, help="Simulated seconds per second (px4, ardupilot)."),
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of all noise.")] = 0,
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the status page; 0 = any free one.")
    ] = 8080,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print the configuration instead, to add cameras and outputs to it.",
        ),
    ] = False,
    print_parameters: Annotated[
        bool,
        typer.Option(
            "--print-parameters",
            help="Print the parameters that fit the vehicle instead, as a file for the "
            "program (px4, ardupilot).",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also log details.")] = False,
) -> None:
    """Let PX4, ArduPilot or Betaflight fly simulated vehicles, in one command, until Ctrl-C."""
    options = program, count, command, folder, indoors, scene, rate_hz, speed, seed, http_port
    if print_parameters:
        _print_parameters(SitlOptions(*options))
        return
    _run(SitlOptions(*options), print_config=print_config, verbose=verbose)


def _print_parameters(options: SitlOptions) -> None:
    from vil_simulation.sitl.parameters import parameter_file
    from vil_simulation.sitl.world import sitl_bridge

    lines = parameter_file(options)
    sitl_bridge(options)  # refuses what it would not run
    for line in lines:
        print(line)


def _run(options: SitlOptions, *, print_config: bool, verbose: bool) -> None:
    import logging

    from vil_bridge.monitoring.logging_setup import setup_logging
    from vil_simulation.sitl.world import connections, sitl_bridge, sitl_data

    config = sitl_bridge(options)
    if print_config:
        import yaml

        print(yaml.safe_dump(sitl_data(options), sort_keys=False), end="")
        return
    setup_logging(level=logging.DEBUG if verbose else logging.INFO)
    for line in connections(options):
        print(line, flush=True)
    from vil_bridge.run import run_bridge

    run_bridge(config)
