"""The Debian package, installed, upgraded, removed and purged by dpkg below a folder instead of
the system's root.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.common import ROOT, needs_program
from tests.support.programs import output
from vil_bridge import __version__

pytestmark = pytest.mark.process

DEBIAN = ROOT / "deploy" / "debian"
_FOLDERS = ("vil_bridge", "adapters", "renderer", "simulation", "deploy", "docs", "configs")
_FILES = ("pyproject.toml", "hatch_build.py", "requirements.lock", "README.md", "LICENSE")
_FORCED = "--force-not-root,depends,bad-path,script-chrootless,confold"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with our modules alone, from a copy of the checkout.

    What they need is where the tests run.
    """
    needs_program("dpkg-deb", "dpkg")
    copy = tmp_path_factory.mktemp("checkout")
    for name in _FOLDERS:
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("frontend", "__pycache__")
        )
    for name in _FILES:
        shutil.copy2(ROOT / name, copy)
    page = copy / "vil_bridge" / "web" / "static" / "index.html"
    page.parent.mkdir(exist_ok=True)
    page.touch()  # no Node is asked to build it
    env = {"PYTHON": sys.executable, "PIP_FLAGS": "--no-deps --no-build-isolation"}
    return Path(
        output("sh", copy / "deploy/debian/build.sh", copy / "out", env=env).splitlines()[-1]
    )


class System:
    """Root of a Debian system that has no other package."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "var/lib/dpkg/updates").mkdir(parents=True)
        (root / "var/lib/dpkg/info").mkdir()
        for table in ("status", "available"):
            (root / "var/lib/dpkg" / table).touch()

    def dpkg(self, *words: object) -> str:
        """Do something as root, or as one who plays root."""
        player = [] if os.geteuid() == 0 else [needs_program("fakeroot", "fakeroot")]
        return output(
            *player, "dpkg", f"--root={self.root}", f"--log={self.root}/log", _FORCED, *words
        )

    def files(self) -> set[str]:
        """Return what there is besides dpkg's own tables and folders."""
        return {
            str(path.relative_to(self.root))
            for path in self._all()
            if path.is_symlink() or path.is_file()
        }

    def _all(self) -> Iterator[Path]:
        return (p for p in self.root.rglob("*") if "dpkg" not in p.parts and p.name != "log")


def test_a_package_is_installed_upgraded_removed_and_purged(package: Path, tmp_path: Path) -> None:
    system = System(tmp_path)
    system.dpkg("-i", package)
    program, config = tmp_path / "usr/bin/vil-bridge", tmp_path / "etc/vil-bridge/bridge.yaml"
    assert {
        f"usr/lib/systemd/system/{unit}.service" for unit in ("vil-bridge", "vil-renderer")
    } <= system.files()
    ours = tmp_path / "opt/vil-bridge/lib/vil_bridge/__init__.py"
    ours.write_text(ours.read_text().replace(__version__, "7.8.9"))
    # Whose Python has what they need.
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert "7.8.9" in output(program, "version", env=env), "it runs what the package brought"
    assert "is good" in output(program, "check", config, env=env)

    config.write_text(config.read_text() + "# ours\n")
    system.dpkg("-i", package)
    assert config.read_text().endswith("# ours\n"), "an upgrade keeps the configuration"

    recordings = tmp_path / "var/lib/vil-bridge"
    recordings.mkdir()
    (recordings / "flight.mcap").touch()
    (tmp_path / "var/cache/vil-bridge").mkdir(parents=True)
    system.dpkg("-r", "vil-bridge")
    assert system.files() == {"etc/vil-bridge/bridge.yaml", "var/lib/vil-bridge/flight.mcap"}
    assert "recordings stay in" in system.dpkg("-P", "vil-bridge")
    assert system.files() == {"var/lib/vil-bridge/flight.mcap"}
    assert not (tmp_path / "var/cache/vil-bridge").exists()


@pytest.mark.parametrize("script", ["build.sh", "postinst", "prerm", "postrm", "vil-bridge"])
def test_scripts_are_of_a_plain_shell(script: str) -> None:
    output("sh", "-n", DEBIAN / script)
