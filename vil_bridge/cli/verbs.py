"""Table of the verbs and of the functions or groups of verbs that they run, by package.

A verb's module is light: what it needs is imported when it runs. A package that is missing leaves
its verbs in the list; they say where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import typer

from vil_bridge.core.installation import PACKAGE_FOLDERS, package_cure
from vil_bridge.runtime.exit_codes import Exit

__all__ = ["GROUPS", "VERBS", "add_to"]

VERBS: Final[Mapping[str, str]] = {
    "demo": "vil_simulation.cli.demo:demo",
    "discover": "vil_bridge.cli.discover:discover",
    "doctor": "vil_bridge.cli.doctor:doctor",
    "align": "vil_bridge.cli.align:align",
    "calibrate": "vil_bridge.cli.align:calibrate",
    "run": "vil_bridge.cli.run:run",
    "fly": "vil_simulation.cli.fly:fly",
    "top": "vil_bridge.cli.top:top",
    "record": "vil_bridge.cli.record:record",
    "replay": "vil_bridge.cli.replay:replay",
    "export": "vil_bridge.cli.export:export",
    "report": "vil_bridge.cli.report:report",
    "map": "vil_bridge.cli.map:map_",
    "plan": "vil_simulation.cli.plan:plan",
    "twin": "vil_simulation.cli.twin:twin",
    "identify": "vil_simulation.cli.identify:identify",
    "dataset": "vil_simulation.cli.dataset:dataset",
    "check": "vil_bridge.cli.configuration:check",
    "init": "vil_bridge.cli.configuration:init",
    "airsim": "vil_simulation.cli.airsim:airsim",
    "sitl": "vil_simulation.cli.sitl:sitl",
    "capture": "vil_adapters.cli.capture:capture",
    "renderer": "vil_renderer.cli.renderer:renderer",
    "bench": "vil_benchmarks.cli:bench",
    "schema": "vil_bridge.cli.configuration:schema",
    "version": "vil_bridge.cli.version:version",
}
GROUPS: Final[Mapping[str, str]] = {
    "keys": "vil_bridge.cli.keys:keys",
    "lab": "vil_adapters.cli.lab:lab",
    "race": "vil_simulation.cli.race:race",
    "room": "vil_bridge.cli.room:room",
    "scene": "vil_renderer.cli.scene:scene",
}
_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "lab": {"autopilot": "vil_simulation.cli.autopilot:autopilot"},
}
"""Verbs of a group that are in another package than the group; they read their words themselves."""
_ANY_WORDS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_to(app: typer.Typer) -> list[typer.Typer]:
    """Add the whole table to a command; return the groups.

    The verb of a missing package says where that is, and exits with :attr:`Exit.CONFIG`.
    """
    for name, place in VERBS.items():
        _add(app, name, place)
    groups: list[typer.Typer] = []
    for name, place in GROUPS.items():
        missing, group = _at(place)
        if missing:
            _add(app, name, place)
            continue
        for member, its_place in _MEMBERS.get(name, {}).items():
            words = f"{name} {member}"
            _add(group, words, its_place, context_settings=_ANY_WORDS, add_help_option=False)
        app.add_typer(group, name=name)
        groups.append(group)
    return groups


def _add(app: typer.Typer, words: str, place: str, **options: Any) -> None:
    """Add a verb, or in its place one that says where its missing package is.

    Args:
        app: the command or the group.
        words: of the whole verb; the last one is its name there.
        place: of its function.
        options: of the command.
    """
    missing, function = _at(place)
    if missing:
        function = _elsewhere(words, missing)
        options = {"context_settings": _ANY_WORDS}
    app.command(words.split()[-1], **options)(function)


def _at(place: str) -> tuple[str, Any]:
    """Return the missing package that a verb needs, or "" and its function or group."""
    module, _, attribute = place.partition(":")
    try:
        return "", getattr(import_module(module), attribute)
    except ModuleNotFoundError as exc:
        package = exc.name or ""
        if package not in PACKAGE_FOLDERS:
            raise
        return package, None


def _elsewhere(name: str, package: str) -> Callable[[], None]:
    """Return a verb that says where its package is."""

    def explain() -> None:
        typer.echo(
            f"error: `vil-bridge {name}` needs the package {package}: {package_cure(package)}.",
            err=True,
        )
        raise typer.Exit(Exit.CONFIG)

    explain.__doc__ = f"Needs the folder {PACKAGE_FOLDERS[package]} of the source code."
    return explain
