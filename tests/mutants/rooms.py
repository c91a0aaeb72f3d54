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
    "protocols": ("vil_bridge/protocols/*.py",),
    "world": ("vil_bridge/world/*.py",),
    "pipeline": ("vil_bridge/pipeline/*.py",),
    "outputs": ("vil_bridge/outputs/*.py",),
    "recording": ("vil_bridge/recording/*.py",),
    "access": (
        "vil_bridge/web/auth/*.py",
        *(f"vil_bridge/web/{name}.py" for name in ("acceptor", "request_body", "tls")),
    ),
    "adapters": tuple(
        f"adapters/vil_adapters/{name}.py"
        for name in (
            *("common/frame_order", "common/mavlink_session"),
            *("mavlink_imu/codec", "optitrack/commands", "optitrack/fast_codec"),
            *("optitrack/sockets", "optitrack/source", "qualisys/codec", "qualisys/connection", "qualisys/parameters"),
            *("remote/session", "simulated/ipc"),
            *("vicon/blocks", "vicon/codec", "vicon/layout"),
            *("vicon/receiver", "vicon/segments", "vicon/source", "vicon/udp_codec"),
            *("vrpn/connection", "vrpn/source", "vrpn/tracker_table"),
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
