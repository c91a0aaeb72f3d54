"""The command ``vil-bridge``: its verbs and its exit codes."""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Final

import typer

from vil_bridge.cli.airsim import airsim
from vil_bridge.cli.align import align, calibrate
from vil_bridge.cli.bench import bench
from vil_bridge.cli.capture import capture
from vil_bridge.cli.configuration import check, init, schema
from vil_bridge.cli.dataset import dataset
from vil_bridge.cli.demo import demo
from vil_bridge.cli.discover import discover
from vil_bridge.cli.doctor import doctor
from vil_bridge.cli.exit_codes import Exit
from vil_bridge.cli.export import export
from vil_bridge.cli.fly import fly
from vil_bridge.cli.identify import identify
from vil_bridge.cli.keys import keys
from vil_bridge.cli.lab import lab
from vil_bridge.cli.map import map_
from vil_bridge.cli.plan import plan
from vil_bridge.cli.race import race
from vil_bridge.cli.record import record
from vil_bridge.cli.renderer import renderer
from vil_bridge.cli.replay import replay
from vil_bridge.cli.report import report
from vil_bridge.cli.room import room
from vil_bridge.cli.run import run
from vil_bridge.cli.scene import scene
from vil_bridge.cli.sitl import sitl
from vil_bridge.cli.top import top
from vil_bridge.cli.twin import twin
from vil_bridge.cli.version import print_version, version
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.text import printable_lines
from vil_bridge.monitoring.heap_profile import watch_heap

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
for verb in (
    demo,
    discover,
    doctor,
    align,
    calibrate,
    run,
    fly,
    top,
    record,
    replay,
    export,
    report,
    map_,
    plan,
    twin,
    identify,
    dataset,
    check,
    init,
    airsim,
    sitl,
    capture,
    renderer,
    bench,
    schema,
    version,
):
    app.command(verb.__name__.rstrip("_"))(verb)
app.add_typer(keys, name="keys")
app.add_typer(lab, name="lab")
app.add_typer(race, name="race")
app.add_typer(room, name="room")
app.add_typer(scene, name="scene")
for group in (app, keys, lab, race, room, scene):
    for command in group.registered_commands:
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
        from vil_bridge.registry import explain_missing, is_of_extra  # slow to import, for --help

        if not is_of_extra(exc):
            raise
        print(f"this verb needs more: {explain_missing(exc)}", file=sys.stderr)
        sys.exit(Exit.CONFIG)
