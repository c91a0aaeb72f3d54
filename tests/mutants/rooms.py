"""Table of the rooms whose mutants are drawn, and of the tests that judge them."""

from __future__ import annotations

import fnmatch
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["ROOMS", "SUITE", "files_of", "tracked"]

SUITE: Final = ("tests/unit", "tests/property", "tests/contract", "tests/fuzz", "tests/e2e")
# Patterns of paths; `*` also matches slashes.
ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "core": ("vil_bridge/core/*.py",),
    "world": ("vil_bridge/world/*.py",),
    "inertial": ("vil_bridge/inertial/*.py",),
    "compensate": ("vil_bridge/compensate/*.py",),
    "pipeline": ("vil_bridge/pipeline/*.py",),
    "stream": ("vil_bridge/stream/*.py",),
    "record": ("vil_bridge/record/*.py",),
    "access": tuple(
        f"vil_bridge/dashboard/{name}.py"
        for name in ("access", "body", "door", "feed_pace", "guard", "login", "sessions", "tls", "tokens")
    ),
    "adapters": tuple(
        f"adapters/vil_adapters/{name}.py"
        for name in (
            *("mavlink_imu/codec", "mavlink_link", "mavlink_request", "frame_order"),
            *("optitrack/codec", "optitrack/commands", "optitrack/frame_codec", "optitrack/lean"),
            *("optitrack/link", "optitrack/model_codec", "optitrack/reader", "optitrack/session"),
            *("qualisys/codec", "qualisys/link", "qualisys/parameters"),
            *("remote/session", "simulated/wire"),
            *("vicon/blocks", "vicon/codec", "vicon/layout", "vicon/link", "vicon/memory", "vicon/objects"),
            *("vicon/receive", "vicon/segments", "vicon/session"),
            *("vrpn/codec", "vrpn/endpoint", "vrpn/link", "vrpn/roster", "vrpn/session"),
        )
    ),
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
    return sorted(path for path in set(listed.stdout.split("\0")) if path and (root / path).is_file())


def files_of(room: str, paths: list[str]) -> list[str]:
    """Return those of ``paths`` that belong to a room."""
    return [path for path in paths if any(fnmatch.fnmatchcase(path, pattern) for pattern in ROOMS[room])]
