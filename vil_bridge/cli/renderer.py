"""``vil-bridge renderer``."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["renderer"]


def renderer(
    client_ip: Annotated[str, typer.Option(help="Address of the bridge.")] = "127.0.0.1",
    input_port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port where the bridge sends poses.")] = 10253,
    output_port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port where it awaits pictures.")] = 10254,
    scene: Annotated[str, typer.Option(help="Scene to draw.")] = "hall",
) -> None:
    """Run the embedded renderer; it dials the bridge and speaks the FlightGoggles protocol."""
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.registry import explain_missing

    try:
        from vil_renderer.embedded.server import run
    except ModuleNotFoundError as exc:
        raise ConfigError(f"the embedded renderer: {explain_missing(exc)}") from exc
    raise typer.Exit(run(client_ip, input_port, output_port, scene))
