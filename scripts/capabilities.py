"""Write the tables of the pages that docs/capabilities.yaml describes.

    python scripts/capabilities.py

A table stands between two comments, ``<!-- capabilities: NAME -->`` and ``<!-- end -->``. Links of
the file are relative to the root of the repository; in a page they are relative to its folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["PAGES", "filled", "read"]

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ("README.md", "docs/index.md", "docs/start/systems.md")
_PLACE: Final = re.compile(r"(<!-- capabilities: (\w+) -->\n).*?(<!-- end -->)", re.S)
_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


def read() -> dict[str, Any]:
    """Return the content of docs/capabilities.yaml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "capabilities.yaml").read_text())
    return found


def filled(page: str, text: str, capabilities: Mapping[str, Any]) -> str:
    """Return the text of a page with renewed tables; ``page``: its path from the root."""

    def table(match: re.Match[str]) -> str:
        rows = _TABLES[match[2]](capabilities)
        return match[1] + _relative(_markdown(rows), page) + match[3]

    return _PLACE.sub(table, text)


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    heading, *others = rows
    lines = [heading, ["---"] * len(heading), *others]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def _relative(text: str, page: str) -> str:
    folder = os.path.dirname(page) or "."  # noqa: PTH120
    return _LINK.sub(lambda match: f"]({os.path.relpath(match[1], folder)})", text)


def _goals(capabilities: Mapping[str, Any]) -> list[list[str]]:
    rows = [["goal", "start here"]]
    return rows + [[row["goal"], row["start"]] for row in capabilities["goals"]]


def _systems(kind: str, heading: str) -> Callable[[Mapping[str, Any]], list[list[str]]]:
    def rows(capabilities: Mapping[str, Any]) -> list[list[str]]:
        found = [[heading, "`type`", "data", "page"]]
        for row in capabilities[kind]:
            types = row.get("builtin") or ", ".join(f"`{name}`" for name in row["types"])
            found.append([row["system"], types, row["data"], row["pages"]])
        return found

    return rows


def _renderers(capabilities: Mapping[str, Any]) -> list[list[str]]:
    rows = [["renderer", "`type`", "page"]]
    for row in capabilities["renderers"]:
        types = " or ".join(f"`{name}`" for name in row["types"])
        rows.append([row["system"], types, row["pages"]])
    return rows


_TABLES: Final[Mapping[str, Callable[[Mapping[str, Any]], list[list[str]]]]] = {
    "goals": _goals,
    "sources": _systems("sources", "system"),
    "outputs": _systems("outputs", "output"),
    "renderers": _renderers,
    "comparison": lambda capabilities: capabilities["comparison"],
}


def main() -> None:
    """Write all pages."""
    capabilities = read()
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(page, path.read_text(), capabilities))


if __name__ == "__main__":
    main()
