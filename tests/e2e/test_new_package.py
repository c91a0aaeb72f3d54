"""Packages that extend the bridge.

Written under another name, each passes its own tests, and the bridge finds it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.bridge_rig import read
from tests.support.common import ROOT
from tests.support.extensions import make_known, readme_configuration
from tests.unit.repository.test_repository import QUALITY_RULES, SOURCE_RULES
from vil_bridge import registry
from vil_bridge.config.root import BridgeConfig
from vil_simulation.source.model_factory import model_names

pytestmark = pytest.mark.process

KINDS: Final = {
    "adapter": ("__init__", "codec", "config", "convert", "emulator", "source"),
    "output": ("__init__", "codec", "config", "output"),
    "service": ("__init__", "config", "routes", "service", "view"),
    "vehicle": ("__init__", "model"),
}
PASSED: Final = {
    "adapter": "14 passed, 1 skipped",
    "output": "3 passed",
    "service": "3 passed",
    "vehicle": "3 passed",
}
EACH_KIND: Final = pytest.mark.parametrize("kind", KINDS)


def new_package(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/new_package.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def package(tmp_path: Path, kind: str) -> Path:
    folder = tmp_path / "elsewhere" / "vil-far-lab"
    done = new_package(kind, "far_lab", folder)
    assert done.returncode == 0, done.stderr
    assert f"cd {folder} && pytest" in done.stdout
    return folder


@EACH_KIND
def test_a_package_passes_its_own_tests_as_written(package: Path, kind: str) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert PASSED[kind] in done.stdout, done.stdout[-2000:]
    assert ("this wire carries no humans" in done.stdout) == (kind == "adapter")


def source_class(config: BridgeConfig) -> object:
    return type(registry.create("sources", "lab", config.sources["lab"])).__name__


def output_class(config: BridgeConfig) -> object:
    output = registry.create("outputs", "mine", config.outputs["mine"])
    output.close()
    return type(output).__name__


def vehicle_model(config: BridgeConfig) -> object:
    vehicles: Mapping[str, Any] = config.sources["sim"].vehicles  # type: ignore[attr-defined]
    return vehicles["mine"].model


@pytest.mark.parametrize(
    ("kind", "names", "made", "expected"),
    [
        ("adapter", lambda: registry.plugin_names("sources"), source_class, "FarLabSource"),
        ("output", lambda: registry.plugin_names("outputs"), output_class, "FarLabOutput"),
        ("vehicle", model_names, vehicle_model, "far_lab"),
    ],
    ids=["adapter", "output", "vehicle"],
)
def test_the_bridge_finds_it_by_its_entry_point(
    package: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: Callable[[], list[str]],
    made: Callable[[BridgeConfig], object],
    expected: str,
) -> None:
    """A service's section is read when the bridge starts: its own tests start one."""
    assert "far_lab" not in names()
    make_known(package, tmp_path, monkeypatch)
    for module in [name for name in sys.modules if name.startswith("vil_far_lab")]:
        monkeypatch.delitem(sys.modules, module)
    assert "far_lab" in names()
    assert made(read(yaml.safe_dump(readme_configuration(package)))) == expected


@EACH_KIND
def test_nothing_of_the_example_is_left_and_what_to_write_is_marked(
    package: Path, kind: str
) -> None:
    texts = {
        str(path.relative_to(package)): path.read_text()
        for path in package.rglob("*")
        if path.is_file()
    }
    assert [name for name, text in texts.items() if "example" in f"{name}{text}".lower()] == []
    modules = {f"vil_far_lab/{name}.py" for name in KINDS[kind]}
    assert {name for name in texts if re.fullmatch(r"vil_far_lab/.*\.py", name)} == modules
    for name in modules - {"vil_far_lab/__init__.py"}:
        assert "TODO" in texts[name], name
    assert {"README.md", "pyproject.toml"} < texts.keys()


@pytest.mark.parametrize("kind", ["adapter"])
def test_a_new_source_states_its_quality(package: Path) -> None:
    text = (package / "vil_far_lab" / "quality.yaml").read_text()
    assert "TODO" in text
    assert set(yaml.safe_load(text)) == QUALITY_RULES | SOURCE_RULES


@pytest.mark.parametrize(
    ("name", "reason"), [("My-Lab", "lower-case letters"), ("_x", "lower-case letters")]
)
def test_a_name_that_python_cannot_import_is_refused(
    tmp_path: Path, name: str, reason: str
) -> None:
    done = new_package("output", name, tmp_path / "new")
    assert (done.returncode, reason in done.stderr, (tmp_path / "new").exists()) == (2, True, False)


@pytest.mark.parametrize("kind", ["vehicle"])
def test_nothing_is_overwritten(package: Path) -> None:
    done = new_package("vehicle", "other", package)
    assert (done.returncode, "is not empty" in done.stderr) == (2, True)
    assert not (package / "vil_other").exists()
