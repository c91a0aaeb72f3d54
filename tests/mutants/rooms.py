"""Table of the rooms whose mutants are drawn, and of the tests that judge them."""

from __future__ import annotations

import fnmatch
import subprocess
from pathlib import Path
from typing import Final

from tests.mutants.c_source import KERNEL

__all__ = ["ROOMS", "SUITE", "files_of", "tracked"]

SUITE: Final = ("tests/unit", "tests/property", "tests/contract", "tests/fuzz", "tests/e2e")
_BRIDGE: Final = (
    *("core", "runtime", "optics", "bodies", "courses", "interfaces", "config", "protocols"),
    *("world", "monitoring", "pipeline", "outputs", "web", "recording", "assembly", "services"),
    *("daemon", "setup", "offline", "cli"),
)
_SIMULATION: Final = (
    *("vehicles", "source", "autopilots", "airsim", "learning", "race", "planning", "twins"),
    *("dataset", "demo", "sitl"),
)
# Patterns of paths; `*` also matches slashes. Each file of the product is in one room.
ROOMS: Final[dict[str, tuple[str, ...]]] = {
    **{folder: (f"vil_bridge/{folder}/*.py",) for folder in _BRIDGE},
    **{folder: (f"simulation/vil_simulation/{folder}/*.py",) for folder in _SIMULATION},
    "simulation": (
        "simulation/vil_simulation/__init__.py",
        "simulation/vil_simulation/cli/*.py",
    ),
    "vil_bridge": tuple(
        f"vil_bridge/{name}.py"
        for name in ("__init__", "__main__", "client", "client_warp", "registry", "run")
    ),
    "adapters": ("adapters/vil_adapters/*.py",),
    "renderer": ("renderer/vil_renderer/*.py",),
    "kernel": (f"{KERNEL}/*.c", f"{KERNEL}/*.h"),
    "kernel_loader": (f"{KERNEL}/*.py",),
}


def tracked(root: Path) -> list[str]:
    """Return the paths below ``root`` that git tracks or would track and that exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(
        path for path in set(listed.stdout.split("\0")) if path and (root / path).is_file()
    )


def files_of(room: str, paths: list[str]) -> list[str]:
    """Return those of ``paths`` that belong to a room."""
    return [
        path for path in paths if any(fnmatch.fnmatchcase(path, pattern) for pattern in ROOMS[room])
    ]
