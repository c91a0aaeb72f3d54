"""The table of verbs: what it names exists, and what a missing package's verb says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from vil_bridge.cli.main import app
from vil_bridge.cli.verbs import GROUPS, VERBS, add_to
from vil_bridge.runtime.exit_codes import Exit


def test_the_help_lists_the_whole_table() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    names = {
        line.split()[0]
        for line in listed.splitlines()
        if line.startswith("  ") and line[2:3].isalpha()
    }
    assert {*VERBS, *GROUPS} <= names


def test_a_verb_is_named_as_its_function() -> None:
    for name, place in VERBS.items():
        assert place.partition(":")[2].rstrip("_") == name


def test_the_verb_of_a_missing_package_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("vil_benchmarks")]:
        monkeypatch.delitem(sys.modules, module)
    paths = [path for path in sys.path if Path(path).name != "benchmarks"]
    monkeypatch.setattr(sys, "path", paths)
    alone = typer.Typer()
    add_to(alone)
    answer = CliRunner().invoke(alone, ["bench", "path", "--json"])
    assert answer.exit_code == Exit.CONFIG
    assert "folder benchmarks of the source code" in answer.output
    assert "pip install -e ." in answer.output


def test_a_module_that_a_verb_needs_is_not_taken_for_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "vil_benchmarks.cli", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(ModuleNotFoundError, match="typer"):
        add_to(typer.Typer())
