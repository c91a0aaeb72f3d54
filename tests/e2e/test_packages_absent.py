"""The bridge without one of the packages next to it.

It runs what needs none of it, and says in words where a missing package is.
"""

from __future__ import annotations

import json
import os
import re
import signal
import site
import sys
from pathlib import Path

import pytest

from tests.support.packages import FOLDERS
from tests.support.programs import Program, output, run
from vil_bridge.core.installation import PACKAGE_FOLDERS
from vil_bridge.registry import BUILT_IN
from vil_bridge.runtime.exit_codes import Exit

ROOT = Path(__file__).resolve().parents[2]
PRESETS = sorted((ROOT / "configs").glob("*.yaml"))
ABSENT = ("vil_adapters", "vil_renderer", "vil_simulation")
RUNNING = {
    "vil_adapters": "sim: {type: simulated, room: hall, vehicles: {drone: {model: kinematic}}}",
    "vil_renderer": "mocap: {type: optitrack, room: hall, server: 127.0.0.1}",
    "vil_simulation": "mocap: {type: optitrack, room: hall, server: 127.0.0.1}",
}
"""A source that needs other packages than the absent one."""
CHECKS = """
import json, sys
from pathlib import Path
from vil_bridge.config.load import load
from vil_bridge.core.errors import ConfigError
from vil_bridge.registry import resolve
found = {}
for path in map(Path, sys.argv[1:]):
    try:
        load(path, resolve=resolve)
        found[path.name] = ""
    except ConfigError as exc:
        found[path.name] = str(exc)
print(json.dumps(found))
"""


def _environment(absent: str) -> dict[str, str]:
    """Return an environment in which a package is not found; Python's ``-S`` adds no others."""
    folders = [str(ROOT / folder) for package, folder in FOLDERS.items() if package != absent]
    return {"PYTHONPATH": os.pathsep.join([*folders, *site.getsitepackages()])}


def _packages_of(preset: Path) -> set[str]:
    """Return the packages that the types of a configuration are in."""
    types = set(re.findall(r"^ +type: ([\w-]+)", preset.read_text(), re.MULTILINE))
    types |= set(re.findall(r"\{ ?type: ([\w-]+)", preset.read_text()))
    plugins = [plugin for table in BUILT_IN.values() for n, plugin in table.items() if n in types]
    return {plugin.config.partition(".")[0] for plugin in plugins}


@pytest.mark.process
@pytest.mark.parametrize("absent", ABSENT)
def test_a_configuration_is_refused_in_words_only_where_it_needs_the_package(absent: str) -> None:
    answer = output(sys.executable, "-S", "-c", CHECKS, *PRESETS, env=_environment(absent))
    found = json.loads(answer)
    needing = {path.name for path in PRESETS if absent in _packages_of(path)}
    assert needing
    assert {name for name, problem in found.items() if problem} == needing
    for name in needing:
        assert f"the package {absent} is not installed" in found[name]
        assert f"in the folder {PACKAGE_FOLDERS[absent]} of the source code" in found[name]


@pytest.mark.process
@pytest.mark.parametrize("absent", ABSENT)
def test_a_bridge_runs_without_the_package(absent: str, tmp_path: Path) -> None:
    file = tmp_path / "bridge.yaml"
    file.write_text(
        "version: 1\nhttp: {port: 0}\nstream: {bind: 'tcp://127.0.0.1:0'}\n"
        f"rooms: {{hall: {{}}}}\nsources: {{{RUNNING[absent]}}}\n"
    )
    words = sys.executable, "-S", "-m", "vil_bridge", "run", file
    with Program(*words, env=_environment(absent)) as bridge:
        bridge.await_text("status page")
        assert bridge.end(signal.SIGTERM) == Exit.OK


@pytest.mark.process
@pytest.mark.parametrize(
    ("absent", "words"),
    [
        ("vil_adapters", ("lab", "--motive", "1510")),
        ("vil_renderer", ("scene", "list")),
        ("vil_renderer", ("renderer",)),
        ("vil_simulation", ("sitl", "px4")),
        ("vil_simulation", ("race", "run")),
        ("vil_simulation", ("lab", "autopilot", "px4")),
    ],
)
def test_a_verb_of_the_package_says_where_it_is(absent: str, words: tuple[str, ...]) -> None:
    asked = sys.executable, "-S", "-m", "vil_bridge", *words
    done = run(*asked, env=_environment(absent))
    assert done.returncode == Exit.CONFIG
    assert f"needs the package {absent}: it is in the folder" in done.stderr
    if words[0] == "lab" and absent == "vil_simulation":
        assert "`vil-bridge lab autopilot` needs" in done.stderr


@pytest.mark.process
def test_the_service_of_the_package_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "bridge.yaml"
    file.write_text("version: 1\nhttp: {port: 0}\nairsim: {port: 0, scene: empty}\n")
    asked = sys.executable, "-S", "-m", "vil_bridge", "run", file
    done = run(*asked, env=_environment("vil_simulation"))
    assert done.returncode == Exit.CONFIG
    assert "the package vil_simulation is not installed" in done.stderr
