"""No page, message or test names this project's distribution to a package index, where nothing
of ours is published.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.common import ROOT
from vil_bridge.core.installation import install_command

_FROM_AN_INDEX = re.compile(
    r"(?:pip|pipx|uv pip|uv tool|conda) install [^\n#`]*?(?<![\w./*-])vil[-_]bridge(?![\w/.*-])"
)
_SUFFIXES = {".md", ".py", ".yaml", ".sh", ".ts", ".toml"}


def _texts() -> list[Path]:
    folders = (
        "vil_bridge",
        "adapters",
        "renderer",
        "simulation",
        "benchmarks",
        "configs",
        "deploy",
        "docs",
        "examples",
        "scripts",
        "tests",
    )
    below = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    listed = [
        path
        for path in (*ROOT.glob("*"), *below)
        if path.suffix in _SUFFIXES and "node_modules" not in path.parts
    ]
    return [path for path in listed if path.name != "CHANGELOG.md" and path.is_file()]


def test_no_file_installs_the_project_from_a_package_index() -> None:
    found = []
    for path in _texts():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if _FROM_AN_INDEX.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_the_pattern_finds_what_would_ask_an_index() -> None:
    distribution = "vil-" + "bridge"
    for command in (
        f"pip install '{distribution}[gl]'",
        f"pip install {distribution}",
        f"pip install -U {distribution}",
    ):
        assert _FROM_AN_INDEX.search(command), command
    for command in (
        "pip install '.[gl]'",
        f"pip install dist/{distribution}-0.1.0.whl",
        f"cd {distribution}",
    ):
        assert not _FROM_AN_INDEX.search(command), command


def test_the_command_names_the_extras_and_the_folder() -> None:
    assert install_command("gl", "splat") == "pip install '.[gl,splat]' in the source folder"
