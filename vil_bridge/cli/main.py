"""The command ``vil-bridge``: its verbs and its exit codes."""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Final

import typer

from vil_bridge.cli.verbs import add_to
from vil_bridge.cli.version import print_version
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.text import printable_lines
from vil_bridge.monitoring.heap_profile import watch_heap
from vil_bridge.runtime.exit_codes import Exit

_COLLECT_STARTING: Final = (10_000, 10, 10)
"""Thresholds of the garbage collector.

What a verb imports and builds stays, so look for garbage seldom.
"""

app = typer.Typer(
    name="vil-bridge",
    no_args_is_help=True,
    # Plain text: the other form takes 0.1 s to import, for --help and every error.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verbs in (app, *add_to(app)):
    for command in verbs.registered_commands:
        # The whole summary, which plain text cuts.
        summary = (command.callback.__doc__ or "").partition("\n\n")[0]
        command.short_help = " ".join(summary.split())


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Vehicle-in-the-loop motion-capture bridge: real drones fly through rendered worlds."""


def main() -> None:
    """Run the command line; the exit code is one of :class:`Exit`."""
    gc.set_threshold(*_COLLECT_STARTING)
    watch_heap()
    try:
        app()
    except VilBridgeError as exc:
        print(printable_lines(str(exc)), file=sys.stderr)
        sys.exit(Exit.CONFIG)
    except ModuleNotFoundError as exc:
        from vil_bridge.registry import explain_missing, is_optional  # slow to import, for --help

        if not is_optional(exc):
            raise
        print(f"this verb needs more: {explain_missing(exc)}", file=sys.stderr)
        sys.exit(Exit.CONFIG)
