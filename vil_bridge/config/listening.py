"""Ports of a configuration that two of its parts want to listen on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from vil_bridge.config.base import StrictModel
from vil_bridge.config.references import ReferenceProblem

_EVERY_ADDRESS: Final = frozenset({"*", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class _Place(NamedTuple):
    path: tuple[str | int, ...]
    transport: str
    host: str
    port: int

    def overlaps(self, other: _Place) -> bool:
        """Return True when both cannot listen at once."""
        if (self.transport, self.port) != (other.transport, other.port):
            return False
        return self.host == other.host or not _EVERY_ADDRESS.isdisjoint((self.host, other.host))


def port_problems(config: StrictModel, cameras: int) -> list[ReferenceProblem]:
    """Return the ports that were given before, at the later place.

    Args:
        config: of a bridge.
        cameras: how many it has.
    """
    found: list[ReferenceProblem] = []
    places: list[_Place] = []
    for place in _places(config, (), cameras):
        for earlier in places:
            if place.overlaps(earlier):
                found.append(ReferenceProblem(place.path, _reason(place, earlier)))
                break
        places.append(place)
    return found


def _reason(place: _Place, earlier: _Place) -> str:
    holder = ".".join(map(str, earlier.path))
    return (
        f"{place.transport.upper()} port {place.port} is that of {holder}. Give one of them "
        "another port"
    )


def _places(value: Any, path: tuple[str | int, ...], cameras: int) -> Iterator[_Place]:
    """Yield where a model and all in it listen; ports that are free to choose are left out."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _places(part, (*path, key), cameras)
    elif isinstance(value, StrictModel):
        yield from _own_places(value, path, cameras)
        for key in type(value).model_fields:
            yield from _places(getattr(value, key), (*path, key), cameras)


def _own_places(model: StrictModel, path: tuple[str | int, ...], cameras: int) -> Iterator[_Place]:
    if getattr(model, "device", None) is not None:  # a serial line
        return
    for listening in model.listens:
        given = getattr(model, listening.key)
        several = given if isinstance(given, tuple) else (given,)
        count = 1
        if listening.each_camera:
            count = cameras
        for one in several:
            host, port = _endpoint(model, one)
            if not port:
                continue
            for number in range(port, port + count):
                for transport in _transports(listening.transport, one):
                    yield _Place((*path, listening.key), transport, host, number)


def _transports(declared: str, given: object) -> list[str]:
    if isinstance(given, str) and given.startswith("quic/"):
        return ["udp"]
    return declared.split()


def _endpoint(model: StrictModel, given: object) -> tuple[str, int]:
    """Return address and port of an endpoint, or of a port next to the model's ``bind``."""
    if isinstance(given, str):
        address, _, port = given.rpartition(":")
        host = address.rpartition("/")[2]
        number = int(port)
    else:
        address = str(getattr(model, "listens_at", None) or getattr(model, "bind", "*"))
        if "://" in address:
            address = address.rpartition(":")[0].rpartition("/")[2]
        host = address
        number = given if isinstance(given, int) else 0
    host = host.strip("[]").lower()
    if host == "localhost":
        host = "127.0.0.1"
    return host, number
