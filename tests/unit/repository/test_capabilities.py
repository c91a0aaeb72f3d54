"""The table of capabilities: nothing is without a row, and every page can be found."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.common import ROOT
from tests.support.house import pages
from vil_bridge.cli.verbs import GROUPS, VERBS
from vil_bridge.config.root import BridgeConfig
from vil_bridge.registry import BUILT_IN

SCRIPT: Final = runpy.run_path(str(ROOT / "scripts" / "capabilities.py"))
CAPABILITIES: Final[dict[str, Any]] = SCRIPT["read"]()
KINDS: Final = ("sources", "outputs", "renderers")
ROWS: Final = [row for kind in ("goals", *KINDS) for row in CAPABILITIES[kind]]
LINK: Final = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


def listed(key: str, rows: list[dict[str, Any]] = ROWS) -> list[str]:
    return [name for row in rows for name in row.get(key, ())]


def test_every_verb_has_a_row() -> None:
    assert sorted(listed("verbs")) == sorted({*VERBS, *GROUPS})


def test_every_section_of_the_configuration_has_a_row() -> None:
    assert sorted(listed("keys")) == sorted(BridgeConfig.model_fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_has_a_row(kind: str) -> None:
    assert set(listed("types", CAPABILITIES[kind])) == set(BUILT_IN[kind])


def test_every_extra_has_a_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = [*listed("extras"), *CAPABILITIES["workshop_extras"]]
    assert sorted(known) == sorted(project["optional-dependencies"])


@pytest.mark.parametrize("page", SCRIPT["PAGES"])
def test_the_tables_of_a_page_are_those_of_the_file(page: str) -> None:
    text = (ROOT / page).read_text()
    assert "<!-- capabilities: " in text
    assert SCRIPT["filled"](page, text, CAPABILITIES) == text, "run python scripts/capabilities.py"


@pytest.mark.parametrize("test", [row["test"] for row in ROWS])
def test_a_rows_case_exists(test: str) -> None:
    file, _, case = test.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    cases = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert case in cases if case else any(name.startswith("test_") for name in cases)


def test_the_comparison_has_a_cell_in_each_column() -> None:
    assert {len(row) for row in CAPABILITIES["comparison"]} == {6}


def linked(page: Path) -> Iterator[Path]:
    """Yield the pages that a page links to; those of a folder where it links to a folder."""
    for target in LINK.findall(page.read_text()):
        path = (page.parent / target).resolve()
        yield from sorted(path.glob("*.md")) if path.is_dir() else [path]


def test_every_page_is_two_clicks_from_the_readme() -> None:
    first = set(linked(ROOT / "README.md"))
    second = {page for near in first if near.suffix == ".md" for page in linked(near)}
    begins = {ROOT / "README.md", ROOT / "docs" / "index.md"}  # in the repository, on the site
    missing = set(pages()) - first - second - begins
    assert sorted(str(page.relative_to(ROOT)) for page in missing) == []
