"""The skeleton of a source.

Written under another name, it passes the contract suite and the bridge finds it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.common import ROOT
from tests.unit.repository.test_repository import QUALITY_RULES, SOURCE_RULES
from vil_bridge import registry
from vil_bridge.config.load import load

pytestmark = pytest.mark.process


def new_adapter(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/new_adapter.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "vil-far-lab"
    done = new_adapter("far_lab", folder)
    assert done.returncode == 0, done.stderr
    assert f"cd {folder} && pytest" in done.stdout
    return folder


def test_the_skeleton_passes_the_contract_suite_as_written(package: Path) -> None:
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
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "14 passed, 1 skipped" in done.stdout, done.stdout[-2000:]
    assert "this wire carries no humans" in done.stdout


def test_the_bridge_finds_it_by_its_entry_point(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / "vil_far_lab-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"]["vil_bridge.sources"].items()
    (info / "entry_points.txt").write_text(
        "[vil_bridge.sources]\n" + "".join(f"{n} = {v}\n" for n, v in entries)
    )
    monkeypatch.syspath_prepend(package)
    assert "far_lab" in registry.plugin_names("sources")
    path = package / "lab.yaml"
    path.write_text("version: 1\nsources: {mine: {type: far_lab, port: 50123}}\n")
    config = load(path, env={}, resolve=registry.resolve).sources["mine"]
    source = registry.create("sources", "mine", config)
    assert (type(source).__name__, source.name, config.port) == ("FarLabSource", "mine", 50123)  # type: ignore[attr-defined]


def test_nothing_of_the_example_is_left_and_what_to_write_is_marked(package: Path) -> None:
    texts = {
        path.relative_to(package): path.read_text() for path in package.rglob("*") if path.is_file()
    }
    assert not [
        name
        for name, text in texts.items()
        if "example" in f"{name}{text}".lower().replace("for example", "")
    ]
    assert {str(name) for name in texts if name.parts[0] == "vil_far_lab"} == {
        f"vil_far_lab/{name}"
        for name in (
            "__init__.py",
            "config.py",
            "codec.py",
            "convert.py",
            "source.py",
            "emulator.py",
            "quality.yaml",
        )
    }
    for name in ("config.py", "codec.py", "convert.py", "source.py", "emulator.py", "quality.yaml"):
        assert "TODO" in texts[Path("vil_far_lab", name)], name
    assert (
        set(yaml.safe_load(texts[Path("vil_far_lab/quality.yaml")])) == QUALITY_RULES | SOURCE_RULES
    )


@pytest.mark.parametrize(
    ("name", "reason"), [("My-Lab", "lower-case letters"), ("_x", "lower-case letters")]
)
def test_a_name_that_python_cannot_import_is_refused(
    tmp_path: Path, name: str, reason: str
) -> None:
    done = new_adapter(name, tmp_path / "new")
    assert (done.returncode, reason in done.stderr, (tmp_path / "new").exists()) == (2, True, False)


def test_nothing_is_overwritten(package: Path) -> None:
    done = new_adapter("other", package)
    assert (done.returncode, "is not empty" in done.stderr) == (2, True)
    assert not (package / "vil_other").exists()
