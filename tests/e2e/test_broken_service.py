"""Services of other distributions that cannot be used: refused in words, and alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.common import ROOT
from tests.support.programs import run

pytestmark = pytest.mark.process

PROGRAM: Final = Path(sys.executable).with_name("vil-bridge")
PLAIN: Final = "version: 1\nrequire_cameras: false\n"


@pytest.mark.parametrize(
    ("name", "place", "reason"),
    [
        ("watch", "vil_nowhere:PLUGIN", "No module named 'vil_nowhere'"),
        ("watch", "json:dumps", "it is not a vil_bridge.interfaces.services.ServicePlugin"),
        ("twins", "json:dumps", "two services are named 'twins'"),
        ("watch", "vil_half:PLUGIN", "No module named 'vil_half_view'"),
    ],
)
def test_the_section_says_what_is_wrong_and_files_without_it_are_read(
    tmp_path: Path, name: str, place: str, reason: str
) -> None:
    info = tmp_path / "vil_other-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vil-other\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[vil_bridge.services]\n{name} = {place}\n")
    (tmp_path / "vil_half.py").write_text(
        "from vil_bridge.interfaces.services import ServicePlugin\n"
        "PLUGIN = ServicePlugin('vil_half:Half', view='vil_half_view')\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    file = tmp_path / "lab.yaml"
    file.write_text(PLAIN)
    done = run(PROGRAM, "check", file, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    file.write_text(f"{PLAIN}{name}: {{}}\n")
    done = run(PROGRAM, "check", file, cwd=ROOT, env=env)
    assert done.returncode == 2
    said = done.stdout + done.stderr
    assert f"lab.yaml:3:1: {name}: " in said and reason in said
    assert f"Mend or uninstall {place}" in said and "Traceback" not in said
