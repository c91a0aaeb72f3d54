"""Packages that extend the bridge, as ``make new-output`` and its like write them.

Our tests and those of the packages use this.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

__all__ = ["make_known", "readme_configuration"]


def make_known(package: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the entry points of a package known as its installation would.

    Args:
        package: folder with its pyproject.toml.
        folder: gets its metadata.
        monkeypatch: forgets it at the end of the test.
    """
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {place}" for name, place in entries.items()]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(package)
    monkeypatch.syspath_prepend(folder)


def readme_configuration(package: Path) -> dict[str, Any]:
    """Return the first configuration of a package's README, on free ports."""
    block = re.search(r"^```yaml\n(.*?)^```", (package / "README.md").read_text(), re.M | re.S)
    assert block is not None, f"{package / 'README.md'} has no configuration"
    config: dict[str, Any] = yaml.safe_load(block[1])
    free = {"stream": {"bind": "tcp://127.0.0.1:0"}, "http": {"port": 0}}
    return config | free | {"realtime": {"fifo_priority": 0}}
