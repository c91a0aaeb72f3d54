"""``vil-bridge run``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.cli.options import ConfigPath, Sets, load_config


def _fault_overrides(texts: list[str], sources: Collection[str]) -> list[str]:
    """Return each ``SOURCE:FAULTS`` as an override of the configuration, those of one source
    together.
    """
    import json

    from vil_bridge.core.errors import ConfigError

    faults: dict[str, list[str]] = {}
    for text in texts:
        source, colon, more = text.partition(":")
        if not colon or source not in sources:
            raise ConfigError(
                f"--faults {text}: write SOURCE:FAULTS; sources here: "
                f"{', '.join(sources) or 'none'}"
            )
        faults.setdefault(source, []).append(more)
    return [
        f"sources.{source}.faults={json.dumps(','.join(items))}" for source, items in faults.items()
    ]


def run(
    config: ConfigPath,
    sets: Sets = None,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE:FAULTS",
            help="Inject faults into a source, e.g. mocap:loss=5%,delay=20ms±5; may be repeated.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Record everything into this new file (.mcap)."),
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs as JSON lines.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also log details.")] = False,
) -> None:
    """Run the bridge until Ctrl-C.

    0 = ended well, 2 = bad configuration, 4 = lost a required source.
    """
    import logging
    import sys

    from vil_bridge.core.errors import RequiredSourceLost
    from vil_bridge.monitoring.logging_setup import setup_logging
    from vil_bridge.runtime.exit_codes import Exit

    setup_logging(level=logging.DEBUG if verbose else logging.INFO, json_lines=log_json)
    loaded = load_config(config, sets)
    if faults:
        sets = [*(sets or ()), *_fault_overrides(faults, loaded.sources)]
        loaded = load_config(config, sets)
    from vil_bridge.run import run_bridge

    try:
        run_bridge(loaded, lambda: load_config(config, sets), record)
    except RequiredSourceLost as exc:
        print(f"error: {exc}", file=sys.stderr)
        raise typer.Exit(Exit.LOST_SOURCE) from None
