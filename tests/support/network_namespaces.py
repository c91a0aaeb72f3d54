"""Hosts as network namespaces of this computer."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import pytest

_CLONE_NEWNET: Final = 0x40000000

_Answer = TypeVar("_Answer")


def ip(*words: str) -> None:
    """Run iproute2. Raises CalledProcessError, FileNotFoundError."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=60.0)


@contextmanager
def two_namespaces() -> Iterator[tuple[str, str]]:
    """Join two namespaces by virtual cables with the addresses 10.213.7.1 and .2.

    Skips where that is not permitted.
    """
    names = f"vil{os.getpid()}a", f"vil{os.getpid()}b"
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            one, other = names
            ip(
                "-n",
                one,
                "link",
                "add",
                "veth0",
                "type",
                "veth",
                "peer",
                "name",
                "veth0",
                "netns",
                other,
            )
            for number, name in enumerate(names, 1):
                ip("-n", name, "addr", "add", f"10.213.7.{number}/24", "dev", "veth0")
                for device in ("lo", "veth0"):
                    ip("-n", name, "link", "set", device, "up")
        except (OSError, subprocess.CalledProcessError) as exc:
            pytest.skip(
                f"network namespaces are not permitted: {getattr(exc, 'stderr', '') or exc}"
            )
        yield names
    finally:
        for name in names:
            with suppress(OSError, subprocess.CalledProcessError):
                ip("netns", "del", name)


def in_namespace(name: str, call: Callable[[], _Answer]) -> _Answer:
    """Call in a network namespace, from a thread that lives there.

    Raises what the call raises, and OSError.
    """
    return in_network(Path(f"/run/netns/{name}"), call)


def in_network(network: Path, call: Callable[[], _Answer]) -> _Answer:
    """Do the same in the network namespace of a file, for example of a process."""
    answers: list[_Answer] = []
    errors: list[Exception] = []

    def run() -> None:
        with network.open() as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET):
                errors.append(OSError(ctypes.get_errno(), "setns"))
                return
        try:
            answers.append(call())
        except Exception as exc:  # the caller raises it
            errors.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
