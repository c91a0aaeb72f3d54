"""The books of a run.

Whatever was sent was received, or counted by the reason for which it was not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ON_THE_WAY: Final = 64
"""Messages that are under way at the instants at which both sides are asked."""


@dataclass
class Books:
    """Entries that must agree, with what was found."""

    entries: dict[str, tuple[float, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def enter(self, name: str, sent: float, accounted: float, slack: float = ON_THE_WAY) -> None:
        """Both sides of an account."""
        self.entries[name] = sent, accounted
        if abs(sent - accounted) > slack:
            self.problems.append(f"{name}: {sent:.0f} against {accounted:.0f}")

    def at_most(self, name: str, part: float, whole: float, slack: float = ON_THE_WAY) -> None:
        """Of which one cannot be more than the other."""
        self.entries[name] = part, whole
        if part > whole + slack:
            self.problems.append(f"{name}: {part:.0f} of {whole:.0f}")


@dataclass(frozen=True)
class Page:
    """All counters at an instant.

    ``links`` by name and direction, ``room`` what the flight room told.
    """

    status: Mapping[str, Any]
    room: Mapping[str, Any]
    links: Mapping[str, Counter[str]]


def balance(first: Page, last: Page, rate_hz: float) -> Books:
    """The books between two pages, of a bridge that lived through."""
    books = Books()
    _networks(books, first, last)
    _room(books, first, last)
    _renderers(books, first.status, last.status)
    _cameras(books, first.status, last.status, rate_hz)
    return books


def _networks(books: Books, first: Page, last: Page) -> None:
    for name, counters in last.links.items():
        c = _more(counters, first.links[name])
        fates = c["delivered"] + c["lost"] + c["silenced"] + c["overflow"] + c["unsent"]
        books.enter(f"link {name}", c["offered"] + c["duplicated"] + c["garbage"], fates)


def _room(books: Books, first: Page, last: Page) -> None:
    room = _more(Counter(last.room["motive"]), Counter(first.room["motive"]))
    fates = (
        room["lost"] + room["silenced"] + room["delivered"] + room["undelivered"] + room["overflow"]
    )
    books.enter("room: messages", room["offered"] + room["duplicated"] + room["garbage"], fates)
    source = _source(last.status, "motive_flight") - _source(first.status, "motive_flight")
    seen = source["frames"] + source["superseded"] + source["stale"] + source["undescribed"]
    # Both sides are asked up to a second apart.
    rate_hz = last.room["rate_hz"]
    books.enter(
        "mocap: frame numbers",
        room["frames"] + room["missed_ticks"],
        seen + source["lost"],
        1.5 * rate_hz,
    )
    imu = last.room["imu"]["sent"] - first.room["imu"]["sent"]
    books.at_most(
        "imu: samples",
        _frames(last.status, "imu") - _frames(first.status, "imu"),
        imu,
        1.5 * rate_hz,
    )


def _renderers(books: Books, first: Mapping[str, Any], last: Mapping[str, Any]) -> None:
    for name, renderer in last["renderers"].items():
        c = _more(
            Counter(renderer["report"]["counters"]),
            Counter(first["renderers"][name]["report"]["counters"]),
        )
        fates = c["answered"] + c["unanswered"] + c["skipped"] + c["swallowed"]
        books.at_most(f"renderer {name}: requests without a fate", c["sent"], fates)
        books.at_most(f"renderer {name}: fates without a request", fates, c["sent"])


def _cameras(
    books: Books, first: Mapping[str, Any], last: Mapping[str, Any], rate_hz: float
) -> None:
    """``front`` has its renderer for itself: each answer is one of its pictures."""
    now, then = last["cameras"]["front"], first["cameras"]["front"]
    dropped = _more(Counter(now["dropped"]), Counter(then["dropped"]))
    received = now["frames"]["received"] - then["frames"]["received"]
    hall = _more(
        Counter(last["renderers"]["hall"]["report"]["counters"]),
        Counter(first["renderers"]["hall"]["report"]["counters"]),
    )
    waiting = dropped["superseded"] + dropped["overtaken"] + dropped["delay_line_full"]
    books.enter("front: answers", hall["answered"], received + waiting)
    ticks = 1e-9 * (last["t_ns"] - first["t_ns"]) * rate_hz
    asked = (
        hall["sent"] + dropped["renderer_busy"] + dropped["tick_missed"] + dropped["tracking_lost"]
    )
    books.at_most("front: ticks", ticks, asked, 0.02 * ticks + ON_THE_WAY)
    sent = last["streams"]["front"]["frames"] - first["streams"]["front"]["frames"]
    books.at_most("front: pictures reported by readers", _reported(last) - _reported(first), sent)


def _reported(status: Mapping[str, Any]) -> int:
    count: int = status["cameras"]["front"]["latency"]["request_to_received"]["since_start"][
        "count"
    ]
    return count


def _source(status: Mapping[str, Any], name: str) -> Counter[str]:
    return Counter(status["sources"][name]["report"]["counters"], frames=_frames(status, name))


def _frames(status: Mapping[str, Any], name: str) -> int:
    count: int = status["sources"][name]["frames"]
    return count


def _more(last: Counter[str], first: Counter[str]) -> Counter[str]:
    found = Counter(last)
    found.subtract(first)
    return found
