"""Table of the verbs and of the functions or groups of verbs that they run, by package.

A verb's module is light: what it needs is imported when it runs. A package that is missing leaves
its verbs in the list; they say where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import typer

from vil_bridge.cli.exit_codes import Exit

__all__ = ["GROUPS", "VERBS", "add_to"]

VERBS: Final[Mapping[str, str]] = {
    "demo": "vil_bridge.cli.demo:demo",
    "discover": "vil_bridge.cli.discover:discover",
    "doctor": "vil_bridge.cli.doctor:doctor",
    "align": "vil_bridge.cli.align:align",
    "calibrate": "vil_bridge.cli.align:calibrate",
    "run": "vil_bridge.cli.run:run",
    "fly": "vil_bridge.cli.fly:fly",
    "top": "vil_bridge.cli.top:top",
    "record": "vil_bridge.cli.record:record",
    "replay": "vil_bridge.cli.replay:replay",
    "export": "vil_bridge.cli.export:export",
    "report": "vil_bridge.cli.report:report",
    "map": "vil_bridge.cli.map:map_",
    "plan": "vil_bridge.cli.plan:plan",
    "twin": "vil_bridge.cli.twin:twin",
    "identify": "vil_bridge.cli.identify:identify",
    "dataset": "vil_bridge.cli.dataset:dataset",
    "check": "vil_bridge.cli.configuration:check",
    "init": "vil_bridge.cli.configuration:init",
    "airsim": "vil_bridge.cli.airsim:airsim",
    "sitl": "vil_bridge.cli.sitl:sitl",
    "capture": "vil_bridge.cli.capture:capture",
    "renderer": "vil_bridge.cli.renderer:renderer",
    "bench": "vil_benchmarks.cli:bench",
    "schema": "vil_bridge.cli.configuration:schema",
    "version": "vil_bridge.cli.version:version",
}
GROUPS: Final[Mapping[str, str]] = {
    "keys": "vil_bridge.cli.keys:keys",
    "lab": "vil_bridge.cli.lab:lab",
    "race": "vil_bridge.cli.race:race",
    "room": "vil_bridge.cli.room:room",
    "scene": "vil_bridge.cli.scene:scene",
}
_FOLDERS: Final[Mapping[str, str]] = {"vil_benchmarks": "benchmarks"}
"""Packages that a wheel may leave out, and their folders in a checkout."""


_ANY_WORDS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_to(app: typer.Typer) -> list[typer.Typer]:
    """Add the whole table to a command; return the groups.

    The verb of a missing package says where that is, and exits with :attr:`Exit.CONFIG`.
    """
    for name, place in VERBS.items():
        package = place.partition(".")[0]
        try:
            app.command(name)(_at(place))
        except ModuleNotFoundError as exc:
            if exc.name != package or package not in _FOLDERS:
                raise
            app.command(name, context_settings=_ANY_WORDS)(_elsewhere(name, package))
    groups = {name: _at(place) for name, place in GROUPS.items()}
    for name, group in groups.items():
        app.add_typer(group, name=name)
    return list(groups.values())


def _at(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _elsewhere(name: str, package: str) -> Callable[[], None]:
    """Return a verb that says where its package is."""
    folder = _FOLDERS[package]

    def explain() -> None:
        typer.echo(
            f"error: `vil-bridge {name}` needs the package {package}, which a wheel leaves out. "
            f"It is in the folder {folder} of the source code: run `pip install -e .` in "
            "the source folder, and try again.",
            err=True,
        )
        raise typer.Exit(Exit.CONFIG)

    explain.__doc__ = f"Needs the folder {folder} of the source code."
    return explain
