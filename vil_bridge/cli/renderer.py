"""``vil-bridge renderer``."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["renderer"]


def renderer(
    client_ip: Annotated[
        str, typer.Option("--client-ip", "-client-ip", help="Numeric address of the bridge.")
    ] = "127.0.0.1",
    input_port: Annotated[
        int,
        typer.Option("--input-port", "-input-port", min=1, max=65535, help="TCP port where the bridge sends poses."),
    ] = 10253,
    output_port: Annotated[
        int,
        typer.Option("--output-port", "-output-port", min=1, max=65535, help="TCP port where it awaits pictures."),
    ] = 10254,
    scene: Annotated[str, typer.Option("--scene", "-scene", help="Scene to draw.")] = "hall",
) -> None:
    """Run the embedded renderer, which dials the bridge: 0 = ended well, 3 = this machine cannot draw.

    Options may be written with one dash, as the original renderer has them.
    """
    from vil_bridge.observe.logs import setup_logging
    from vil_renderer.embedded.server import run

    setup_logging()
    raise typer.Exit(run(client_ip, input_port, output_port, scene))
