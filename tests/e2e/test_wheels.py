"""The wheels of the bridge, with and without the compiled kernel, installed outside the
repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import cv2
import pytest

from tests.support.common import ROOT, needs_program
from tests.support.programs import output, run

pytestmark = [pytest.mark.process, pytest.mark.long]

_KINDS: Final = ("py3-none-linux_*", "py3-none-any")
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
_ABSENT: Final = "absent (libvil_kernel.so was not built); "


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_program("cc", "gcc")
    folder = tmp_path_factory.mktemp("wheels")
    output("sh", ROOT / "scripts" / "wheels.sh", folder, env={"PYTHON": sys.executable})
    assert len(list(folder.iterdir())) == 3, "with the kernel, without it, and the client"
    return folder


class Installed:
    """Virtual environment that holds one wheel; what that needs is where the tests run."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.pure = folder, wheel.stem.endswith("any")
        output(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
        python = folder / "environment" / "bin" / "python"
        output(*_PIP, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
        (site,) = (folder / "environment").glob("lib/python*/site-packages")
        (site / "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, *words: object, limit_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run its ``vil-bridge``."""
        program = self.folder / "environment" / "bin" / "vil-bridge"
        return run(program, *words, limit_s=limit_s, cwd=self.folder, env={"PYTHONPATH": ""})


@pytest.fixture(scope="module", params=_KINDS, ids=("kernel", "pure"))
def installed(
    wheels: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Installed:
    (wheel,) = wheels.glob(f"vil_bridge-*-{request.param}.whl")
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def _kernel_finding(doctor: str) -> str:
    (line,) = (line for line in doctor.splitlines() if "compiled kernel" in line)
    return line


def test_it_shows_its_help_and_checks_a_configuration(installed: Installed) -> None:
    assert "Usage: vil-bridge" in installed.run("--help").stdout
    shutil.copy(ROOT / "configs" / "simulated.yaml", installed.folder)
    checked = installed.run("check", "simulated.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "is good" in checked.stdout


def test_the_doctor_states_whether_the_kernel_computes_and_what_its_absence_costs(
    installed: Installed,
) -> None:
    finding = _kernel_finding(installed.run("doctor").stdout)
    if installed.pure:
        assert finding.startswith("warn"), finding
        assert finding.partition(_ABSENT)[2], finding
    else:
        assert finding.startswith("ok"), finding


def test_it_leaves_the_benchmarks_out_and_says_where_they_are(installed: Installed) -> None:
    done = installed.run("bench", "path", "--json")
    assert done.returncode == 2
    assert "folder benchmarks of the source code" in done.stderr


@pytest.mark.gl
def test_its_demo_shows_a_picture(installed: Installed) -> None:
    done = installed.run("demo", "--seconds", "3", "--json", "summary.json", limit_s=240.0)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((installed.folder / "summary.json").read_text())
    assert summary["frames_received"] >= 1
    picture = cv2.imread(str(installed.folder / "out" / "demo" / "compensated.png"))
    assert picture is not None
    assert float(picture.std()) > 5.0, "it is blank"


@pytest.mark.parametrize("without", ["PATH=/nonexistent", "CC=false"], ids=["compiler", "headers"])
def test_an_installation_without_a_compiler_works_and_says_so(without: str, tmp_path: Path) -> None:
    alone = ("env", without, "PYTHONPATH=", *_PIP)
    output(*alone, "install", "-q", "--no-deps", "--no-build-isolation", "--target", tmp_path, ROOT)
    doctor = run(
        sys.executable,
        "-m",
        "vil_bridge",
        "doctor",
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert _ABSENT in _kernel_finding(doctor.stdout)
