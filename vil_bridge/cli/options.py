"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vil_bridge.config.root import BridgeConfig

ConfigPath = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="Configuration file (YAML).", show_default=False)
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=VALUE",
        help="Override a key of the file; may be repeated.",
        show_default=False,
    ),
]
JsonWithPrompts = Annotated[
    bool, typer.Option("--json", help="Print JSON; the prompts go to the error output.")
]


def load_config(path: Path, sets: list[str] | None) -> BridgeConfig:
    """Read the configuration with every known plug-in.

    Raises:
        ConfigError: one line for every problem.
    """
    from vil_bridge.config.load import load
    from vil_bridge.registry import resolve

    return load(path, sets=sets or (), resolve=resolve, find_inputs=True)


def quiet_logs() -> None:
    """Leave the terminal to the verb: the status of sources contains what they log."""
    import logging

    logging.getLogger().addHandler(logging.NullHandler())
