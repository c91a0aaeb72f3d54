"""Notation of a link: ``[tcp:][HOST:]PORT=[HOST:]PORT[:FAULTS]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from vil_bridge.core.errors import ConfigError
from vil_bridge.interfaces.faults import Faults

Address = tuple[str, int]

_FAULTS: Final = (
    "loss",
    "duplicate",
    "reorder",
    "garbage",
    "delay",
    "jitter",
    "burst",
    "rate",
    "cut",
    "reset",
    "seed",
)
_NOT_ON = {"tcp": ("duplicate", "garbage"), "udp": ("reset",)}
_SAME_AS: Final = {"cut": "halfopen", "reset": "restart"}
_UNIT_BPS: Final = {"kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}
_LOOPBACK: Final = "127.0.0.1"
_PLACE: Final = r"((?:[^=:]+:)?\d{1,9})"


@dataclass(frozen=True, slots=True)
class Way:
    """Faults and rate of one direction.

    Attributes:
        faults: of its messages; ``halfopen`` is a cut, ``restart`` a reset of all connections.
        rate_bps: bits per second, 0 = no limit.
    """

    faults: Faults = field(default_factory=Faults)
    rate_bps: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A link.

    Attributes:
        target: where the listening program is.
        listen: where its clients are to go; port 0 = any free one.
        up, down: from the clients to the target, and back.
    """

    target: Address
    listen: Address = (_LOOPBACK, 0)
    protocol: Literal["udp", "tcp"] = "udp"
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)

    @classmethod
    def parse(cls, text: str) -> LinkSpec:
        """Read a link such as ``tcp:7100=127.0.0.1:7000:delay=20ms±5,up.rate=2Mbit``.

        The faults are those of :class:`~vil_bridge.interfaces.faults.Faults` that a network has,
        and ``rate=10Mbit``, ``cut=EPISODE``, ``reset=EPISODE`` (TCP); ``up.`` or ``down.`` before
        one keeps it to one direction.

        Raises:
            ConfigError: a line per item that says nothing, with what was expected.
        """
        found = re.fullmatch(rf"(?:(tcp|udp):)?{_PLACE}={_PLACE}(?::(.*))?", text)
        if found is None:
            raise ConfigError(
                f"link {text!r}: write [tcp:][HOST:]PORT=[HOST:]PORT[:FAULTS], such as "
                "7100=192.0.2.7:7000:loss=5%"
            )
        protocol: Literal["udp", "tcp"] = "tcp" if found[1] == "tcp" else "udp"
        return cls(_address(found[3]), _address(found[2]), protocol).with_faults(found[4] or "")

    def with_faults(self, text: str) -> LinkSpec:
        """Return the same link as another network, such as ``delay=20ms±5,up.rate=2Mbit``.

        Empty = a perfect one.

        Raises:
            ConfigError: a line per item that says nothing, with what was expected.
        """
        up, down = _ways(text, self.protocol)
        return replace(self, up=up, down=down)


def _address(text: str) -> Address:
    """Read ``[HOST:]PORT``. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    if int(port) > 65535:
        raise ConfigError(f"link address {text!r}: ports are 0 to 65535")
    return host or _LOOPBACK, int(port)


def _ways(text: str, protocol: str) -> tuple[Way, Way]:
    """Read the faults and rates of both directions. Raises ConfigError."""
    known = [name for name in _FAULTS if name not in _NOT_ON[protocol]]
    items: dict[str, list[str]] = {"up": [], "down": []}
    rates_bps = dict.fromkeys(items, 0.0)
    problems: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        way, dot, rest = item.partition(".")
        ways, fault = ([way], rest) if dot and way in items else (list(items), item)
        name, _, value = fault.partition("=")
        if name not in known:
            problems.append(
                f"fault {item!r}: a {protocol} link has no such fault; known: {', '.join(known)}"
            )
            continue
        try:
            if name == "rate":
                rates_bps |= dict.fromkeys(ways, _rate_bps(value))
                continue
            same = f"{_SAME_AS.get(name, name)}={value}"
            Faults.parse(same)
        except ConfigError as exc:
            problems.append(f"link: {exc}")
            continue
        for each in ways:
            items[each].append(same)
    if problems:
        raise ConfigError(problems)
    up, down = (Way(Faults.parse(",".join(items[way])), rates_bps[way]) for way in ("up", "down"))
    return up, down


def _rate_bps(text: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(kbit|Mbit|Gbit)", text)
    if found is None or float(found[1]) == 0.0:
        raise ConfigError(f"fault 'rate={text}': write a rate such as 10Mbit")
    return float(found[1]) * _UNIT_BPS[found[2]]
