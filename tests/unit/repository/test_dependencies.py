"""Everything that the product imports is declared in pyproject.toml, by the name of its
distribution.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from tests.support.common import ROOT
from tests.support.house import imports, python_files
from tests.support.packages import PACKAGES

OURS = set(PACKAGES)
ABSENT = {
    "crazyflow": "crazyflow",
    "jax": "jax",
    "stable_baselines3": "stable-baselines3",
    "panda3d": "panda3d",
    "pyrender": "pyrender",
    "DracoPy": "dracopy",
    "pycolmap": "pycolmap",
}
"""Distributions of modules that the locked environment lacks, or an older one."""
VENDORS = {"vicon_dssdk", "pyvicon_datastream"}
"""Come with a vendor's program and are on no index."""


def imported(path: Path) -> Iterator[str]:
    """Top-level modules that a file imports, by statement or by a literal name.

    Ours and Python's left out.
    """
    for name in imports(path):
        module = name.partition(".")[0]
        if module not in sys.stdlib_module_names and module not in OURS:
            yield "google.protobuf" if module == "google" else module


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(project: dict[str, Any]) -> set[str]:
    needs = [
        *project["dependencies"],
        *(n for extra in project["optional-dependencies"].values() for n in extra),
    ]
    return {normalized(re.split(r"[\[<>=; ]", need)[0]) for need in needs}


def test_everything_imported_is_declared() -> None:
    known = declared(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    distributions = {**packages_distributions(), "google.protobuf": ["protobuf"]}
    missing: dict[str, str] = {}
    found: set[str] = set()
    for path in python_files():
        for module in imported(path):
            found.add(module)
            owners = distributions.get(module) or [ABSENT.get(module, f"unknown: {module}")]
            if module not in VENDORS and not {normalized(owner) for owner in owners} & known:
                missing[module] = str(path)
    assert missing == {}
    assert len(found) > 30
