"""``vil-bridge run``."""

from __future__ import annotations

from typing import Annotated

import typer

from vil_bridge.cli.options import ConfigPath, Sets, load_config

__all__ = ["run"]


def run(
    config: ConfigPath,
    sets: Sets = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs as JSON lines.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also log details.")] = False,
) -> None:
    """Run the bridge until Ctrl-C: 0 = ended well, 2 = bad configuration, 4 = lost a required source."""
    import logging
    import sys

    from vil_bridge.cli.exits import Exit
    from vil_bridge.core.errors import RequiredSourceLost
    from vil_bridge.observe.logs import setup_logging

    loaded = load_config(config, sets)
    setup_logging(level=logging.DEBUG if verbose else logging.INFO, json_lines=log_json)
    from vil_bridge.app import run_daemon

    try:
        run_daemon(loaded)
    except RequiredSourceLost as exc:
        print(f"error: {exc}", file=sys.stderr)
        raise typer.Exit(Exit.LOST_SOURCE) from None
