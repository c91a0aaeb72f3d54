"""The interface between an attack and the harness; light to import, since attackers import it too.

A module of this package whose name is in :data:`tests.attacks.run.ATTACKS` has a constant
``ATTACK`` and, where its attackers are programs of ours, a ``__main__`` part that attacks until
:func:`moments` ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

__all__ = ["Attack", "Command", "Status", "Target", "growth", "moments", "named", "program", "seen"]

LONGEST_S: Final = 60.0
"""Limit of an attacker's life; the harness ends it earlier."""

Command = Sequence[str]
Status = Mapping[str, Any]


class Target(Protocol):
    """A running bridge under attack.

    Attributes:
        folder: of configuration, keys, tokens and logs.
        endpoint: the stream's control channel, ``tcp://127.0.0.1:PORT``.
        stream_port, http_port, federation_port: TCP ports of the control channel, HTTP and
            ``federation.zmq``.
        pose_port, image_port: TCP ports of the renderer's sockets.
    """

    folder: Path
    endpoint: str
    stream_port: int
    http_port: int
    federation_port: int
    pose_port: int
    image_port: int

    def get(self, path: str = "api/v1/status") -> dict[str, Any]:
        """Return a JSON answer of the bridge. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        summary: one line for people.
        commands: returns the command lines of one round's attackers. Each prints ``ready`` when it
            begins (:func:`moments` does) and must not fail before the harness ends it; it may end
            early with code 0.
        counted: returns the words and counters of the second status that show the attacker,
            compared with the first (before this attack's first round); empty = the bridge did not
            see it. Polled for 3 s.
        configure: changes the standard configuration in place, and may write files into the folder.
            Attacks with the same function share one bridge.
        during: looks at the bridge in the middle of each attack phase; returns problems.
        least_share: of the reference picture rate, below which the attack has succeeded.
        judges_rate: False where the attack takes the pictures away by its nature (a renderer that
            freezes).
    """

    summary: str
    commands: Callable[[Target], Sequence[Command]]
    counted: Callable[[Status, Status], str]
    configure: Callable[[dict[str, Any], Path], None] | None = None
    during: Callable[[Target], list[str]] | None = None
    least_share: float = 0.8
    judges_rate: bool = True


def program(module: str, *arguments: object) -> list[str]:
    """Return the command line of a module of this package."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def moments(period_s: float = 0.0) -> Iterator[None]:
    """Print ``ready``, then yield until the limit of an attacker's life, at most once in
    ``period_s``.
    """
    print("ready", flush=True)
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < LONGEST_S:
        yield
        if period_s:
            time.sleep(period_s)


def growth(before: Status, after: Status) -> dict[str, float]:
    """Return all numbers of a status that grew, with the way to them as a dotted key, and by how
    much.
    """
    first, last = dict(_leaves(before)), dict(_leaves(after))
    return {
        key: value - first.get(key, 0) for key, value in last.items() if value > first.get(key, 0)
    }


def seen(before: Status, after: Status, *parts: str) -> str:
    """Return the counters that grew and whose key contains one of ``parts``, as words.

    Empty = none did.
    """
    found = {
        key: grown
        for key, grown in growth(before, after).items()
        if any(part in key for part in parts)
    }
    return ", ".join(f"{key} +{grown:g}" for key, grown in sorted(found.items()))


def named(before: Status, after: Status, port: str, *reasons: str) -> str:
    """Return the rows of ``peer_faults`` of a port that grew, as words.

    Empty unless each of the reasons has one.
    """
    first = {
        (row["peer"], row["reason"]): row["count"]
        for row in before["peer_faults"]
        if row["port"] == port
    }
    rows = [
        (row["peer"], row["reason"], row["count"])
        for row in after["peer_faults"]
        if row["port"] == port
    ]
    grown = [
        (peer, reason, n)
        for peer, reason, n in rows
        if n > first.get((peer, reason), 0) and reason in reasons
    ]
    if {reason for _, reason, _ in grown} != set(reasons):
        return ""
    return ", ".join(f"{peer} {reason} {n}" for peer, reason, n in grown)


def _leaves(node: object, way: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{way}.{key}" if way else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(value, f"{way}[{index}]")
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield way, node
