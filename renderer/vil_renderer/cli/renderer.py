"""``vil-bridge renderer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import typer


def _serve() -> Callable[..., int]:
    """Return the function that serves. Raises ConfigError: the extra ``gl`` is not installed."""
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.registry import explain_missing

    try:
        from vil_renderer.embedded.servers.main import run
    except ModuleNotFoundError as exc:
        raise ConfigError(f"the renderer: {explain_missing(exc, 'gl')}") from exc
    return run


def renderer(
    client_ip: Annotated[
        str, typer.Option("--client-ip", "-client-ip", help="Numeric address of the bridge.")
    ] = "127.0.0.1",
    input_port: Annotated[
        int,
        typer.Option(
            "--input-port", "-input-port", min=1, max=65535, help="TCP port of the bridge's poses."
        ),
    ] = 10253,
    output_port: Annotated[
        int,
        typer.Option(
            "--output-port",
            "-output-port",
            min=1,
            max=65535,
            help="TCP port where it awaits pictures.",
        ),
    ] = 10254,
    scene: Annotated[
        str,
        typer.Option(
            "--scene", "-scene", help="Scene: its name or file; client = Flightmare's number."
        ),
    ] = "hall",
    profile: Annotated[
        str, typer.Option("--profile", "-profile", help="Quality: low, medium, high, ultra.")
    ] = "low",
    budget_ms: Annotated[
        float,
        typer.Option(
            "--budget-ms",
            "-budget-ms",
            min=0.0,
            help="Milliseconds for a request's pictures; 0 = any.",
        ),
    ] = 0.0,
    device: Annotated[
        int | None, typer.Option("--device", "-device", min=0, help="GPU, as CUDA counts them.")
    ] = None,
    protocol: Annotated[
        Literal["flightgoggles", "flightmare"],
        typer.Option("--protocol", "-protocol", help="Protocol of the wire."),
    ] = "flightgoggles",
    fifo: Annotated[
        bool,
        typer.Option(
            "--fifo", "-fifo", help="FlightGoggles: draw every pose in order, not the newest one."
        ),
    ] = False,
    baked: Annotated[
        bool, typer.Option("--baked", "-baked", help="Light of all bounces; minutes at first.")
    ] = False,
) -> None:
    """Run the embedded renderer, which dials the bridge.

    0 = ended well, 3 = this machine cannot draw.

    Options may have one dash, as the original renderer's.
    """
    from vil_bridge.monitoring.logging_setup import setup_logging

    serve = _serve()
    setup_logging()
    raise typer.Exit(
        serve(
            client_ip,
            input_port,
            output_port,
            scene,
            profile=profile,
            budget_ms=budget_ms,
            device=device,
            protocol=protocol,
            fifo=fifo,
            baked=baked,
        )
    )
