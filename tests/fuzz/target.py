"""What is fuzzed: one target for every codec that reads foreign bytes."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CODECS", "CORPORA", "SEPARATOR", "Target", "join", "load", "saved", "scratch", "split"]

CORPORA: Final = Path(__file__).parent / "corpora"
SEPARATOR: Final = b"\x00|\xff|"
"""Between the parts of a message that has several, or the pieces in which a stream arrives."""

_GROUPS: Final = {
    "mocap": (
        "natnet-frame",
        "natnet-lean",
        "natnet-models",
        "natnet-dialogue",
        "natnet-convert",
        "vicon-stream",
        "vicon-blocks",
        "vicon-convert",
        "tracker-udp",
        "vrpn",
        "qualisys-data",
        "qualisys-parameters",
    ),
    "links": (
        "mavlink-stream",
        "mavlink-messages",
        "msp",
        "federation",
        "simulated-child",
        "bridge-ring",
    ),
    "commands": ("ros-commands", "lcm-commands"),
    "renderers": (
        "flightgoggles-pose",
        "flightgoggles-answer",
        "flightmare-request",
        "flightmare-answer",
        "flightmare-objects",
    ),
    "streams": (
        "stream-control",
        "client-control",
        "client-picture",
        "client-packets",
        "client-clock",
        "udp-report",
        "rtcp",
        "ledger",
    ),
    "recordings": ("euroc", "tum", "bvh", "c3d", "trc", "nexus-csv", "motive-csv"),
    "scenes": (
        "gltf-text",
        "glb",
        "scene-file",
        "perturbation",
        "splats",
        "splats-spz",
        "splats-sog",
        "splats-glb",
        "splats-rows",
        "obj",
        "ply",
        "stl",
        "collada",
    ),
    "ours": (
        "recording-file",
        "recording-chunk",
        "recording-events",
        "capture",
        "live-subscription",
        "live-messages",
    ),
    "races": ("course", "lsy-level", "alphapilot-gates", "alphapilot-challenge", "alphapilot-log"),
    "maps": ("octomap",),
    "texts": ("configuration", "marker-template", "faults", "link", "curve-keys"),
}

CODECS: Final = {name: group for group, names in _GROUPS.items() for name in names}
"""Each codec and the module of :mod:`tests.fuzz.targets` that holds it."""


@dataclass(frozen=True)
class Target:
    """A reader of foreign bytes.

    Attributes:
        name: as in :data:`CODECS`.
        read: takes the bytes and uses what it read as far as the bridge would.
        errors: what the reader's documentation allows; anything else that escapes is a finding.
        seeds: good messages, made by our own encoders and emulators.
        max_bytes: longest input that is tried.
        is_json: parts are JSON, so that values are changed besides bytes.
        limit_ms: processor time that one input may take; more for files that people write and a
            start reads once.
    """

    name: str
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]
    max_bytes: int = 4096
    is_json: bool = False
    limit_ms: float = 50.0

    def take(self, data: bytes) -> None:
        """Read one input; raises whatever is a finding."""
        with contextlib.suppress(*self.errors):
            self.read(data)


def load(name: str) -> Target:
    """A codec's target, or the one that ``module:NAME`` is; imports the codec."""
    if ":" in name:
        place, _, attribute = name.partition(":")
        planted: Target = getattr(importlib.import_module(place), attribute)
        return planted
    module = importlib.import_module(f"tests.fuzz.targets.{CODECS[name]}")
    found: dict[str, Target] = {target.name: target for target in module.TARGETS}
    return found[name]


def saved(name: str) -> list[bytes]:
    """The inputs of a codec's corpus that the repository holds."""
    return [path.read_bytes() for path in sorted((CORPORA / name).glob("*"))]


def scratch() -> Path:
    """A folder for files that a codec reads, gone when the process ends well."""
    folder = Path(tempfile.mkdtemp(prefix="vil-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def split(data: bytes) -> list[bytes]:
    """Parts of an input."""
    return data.split(SEPARATOR)


def join(*parts: bytes) -> bytes:
    """The counterpart of :func:`split`."""
    return SEPARATOR.join(parts)
