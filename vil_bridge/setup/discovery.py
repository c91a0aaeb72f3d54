"""Search for the mocap servers of a network, and the configuration that reaches them."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from vil_bridge import registry
from vil_bridge.config.references import WORLD
from vil_bridge.core.errors import ConfigError, VilBridgeError
from vil_bridge.core.text import printable
from vil_bridge.interfaces.ports import Discover, FoundSource
from vil_bridge.runtime.network import resolve

_GRACE_S: Final = 5.0
_DEVICE: Final = "device"
"""Key of sources on serial lines: these are listed, not asked."""
_NAME_LIMIT: Final = 64
_SUBJECT_LIMIT: Final = 255


@dataclass(frozen=True, slots=True)
class Search:
    """Result of a search.

    Attributes:
        tried: types of sources that were searched for.
        failed: type, or computer, to the reason why it could not be searched for, or asked.
        serial: serial devices of this computer, where inertial sensors may be.
    """

    found: tuple[FoundSource, ...]
    tried: tuple[str, ...]
    failed: dict[str, str] = field(default_factory=dict)
    serial: tuple[str, ...] = ()


async def search(targets: Sequence[str], timeout_s: float) -> Search:
    """Ask with all adapters at once.

    Args:
        targets: ``host`` or ``host:port``; empty = every server that answers on the default ports.
        timeout_s: how long each adapter listens.

    Raises:
        ConfigError: a target is neither ``host`` nor ``host:port``.
    """
    for target in targets:
        _check_target(target)
    names = registry.searchable_sources()
    unknown = {target: reason for target in targets if (reason := await _unknown(target))}
    if unknown and len(unknown) == len(set(targets)):
        return Search((), (), unknown, tuple(serial_devices()))
    targets = [target for target in targets if target not in unknown]
    # Imports take the loop's time, so they come before the searches wait for answers.
    searches = [_search_of(name) for name in names]
    answers = await asyncio.gather(*(_ask(s, targets, timeout_s) for s in searches))
    heard = [source for answer in answers if not isinstance(answer, str) for source in answer]
    heard.sort(key=lambda source: (source.type, sorted(map(str, source.config.items()))))
    lines = [str(source.config[_DEVICE]) for source in heard if _DEVICE in source.config]
    return Search(
        tuple(source for source in heard if _DEVICE not in source.config),
        tuple(names),
        unknown
        | {
            name: answer
            for name, answer in zip(names, answers, strict=True)
            if isinstance(answer, str)
        },
        tuple(dict.fromkeys((*serial_devices(), *lines))),
    )


def _check_target(target: str) -> None:
    host, colon, port = target.partition(":")
    if not host or (
        colon and not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16)
    ):
        raise ConfigError(
            f"{target!r}: write HOST or HOST:PORT, such as 192.168.1.10 or 192.168.1.10:1510"
        )


async def _unknown(target: str) -> str:
    """Return the reason that a target's name has no address, empty when it has one."""
    try:
        await resolve(target.partition(":")[0], 0)
    except OSError as exc:
        return f"its name is unknown ({getattr(exc, 'strerror', None) or exc})"
    return ""


def _search_of(name: str) -> Discover | str:
    """Return an adapter's search, or why there is none."""
    try:
        return registry.search_of(name)
    except VilBridgeError as exc:
        return str(exc)


async def _ask(
    search_servers: Discover | str, targets: Sequence[str], timeout_s: float
) -> list[FoundSource] | str:
    """Return the servers that one adapter finds, or the reason that it cannot search."""
    if isinstance(search_servers, str):
        return search_servers
    try:
        async with asyncio.timeout(timeout_s + _GRACE_S):
            return await search_servers(targets, timeout_s)
    except TimeoutError:
        return f"did not end within {timeout_s + _GRACE_S:.0f} s"
    except (VilBridgeError, OSError) as exc:
        return str(exc) or type(exc).__name__


def serial_devices(dev: Path = Path("/dev")) -> list[str]:
    """Return the serial lines by their persistent names; those without one by their own."""
    lasting = sorted((dev / "serial" / "by-id").glob("*"))
    known = {link.resolve() for link in lasting}
    found = [p for pattern in ("ttyACM*", "ttyUSB*", "ttyTHS*") for p in sorted(dev.glob(pattern))]
    others = [p for p in found if p.resolve() not in known]
    return [str(p) for p in (*lasting, *others)]


# --- the configuration ----------------------------------------------------------------------------


def config_name(text: str, taken: Collection[str]) -> str:
    """Return a name as the configuration wants it, near to ``text`` and not taken yet."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-") or "body"
    if name[0].isdigit():
        name = f"n{name}"
    elif not name[0].isalpha():
        name = f"n-{name.lstrip('_')}"
    name = name[: _NAME_LIMIT - 4]
    candidates = (name, *(f"{name}-{i}" for i in range(2, len(taken) + 3)))
    return next(c for c in candidates if c not in taken and c != WORLD)


def as_config(found: Sequence[FoundSource]) -> dict[str, Any]:
    """Return a configuration with a room for every server, an actor for every subject, a renderer
    and a camera.

    The camera sits on the first vehicle; without one it looks into the world.
    """
    rooms: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    actors: dict[str, Any] = {}
    for server in found:
        room = config_name("room", rooms)
        source = config_name(server.type, sources)
        rooms[room] = {}
        sources[source] = {"type": server.type, "room": room, **server.config}
        kinds = {name: "human" for name, _ in server.skeletons} | {
            name: "vehicle" for name, _ in server.bodies
        }
        for subject, kind in kinds.items():
            if 0 < len(subject) <= _SUBJECT_LIMIT:
                actors[config_name(subject, actors)] = {
                    "kind": kind,
                    "source": source,
                    "subject": subject,
                }
    carrier = next((name for name, actor in actors.items() if actor["kind"] == "vehicle"), WORLD)
    place = {"p_m": [0.1, 0.0, 0.0] if carrier != WORLD else [-2.0, 0.0, 1.7]}
    cameras = (
        {"front": {"actor": carrier, "renderer": "unity", "T_body_camera": place}} if found else {}
    )
    renderers = {"unity": {"type": "flightgoggles"}} if found else {}
    return {
        "version": 1,
        "rooms": rooms,
        "sources": sources,
        "actors": actors,
        "renderers": renderers,
        "cameras": cameras,
    }


def as_yaml(result: Search) -> str:
    """Return the table as comments, and the configuration.

    Together a file that passes ``vil-bridge check``.
    """
    body = yaml.safe_dump(as_config(result.found), sort_keys=False, allow_unicode=True)
    return "".join(f"# {line}\n" if line else "#\n" for line in _table(result)) + body


def as_json(result: Search) -> dict[str, Any]:
    """Return the same for programs."""

    def subjects(listed: Sequence[tuple[str, float | None]]) -> list[dict[str, Any]]:
        return [{"name": name, "rate_hz": rate_hz} for name, rate_hz in listed]

    return {
        "found": [
            {
                "type": s.type,
                "title": s.title,
                "config": dict(s.config),
                "bodies": subjects(s.bodies),
                "skeletons": subjects(s.skeletons),
            }
            for s in result.found
        ],
        "tried": list(result.tried),
        "failed": result.failed,
        "serial": list(result.serial),
        "config": as_config(result.found),
    }


def _table(result: Search) -> list[str]:
    lines: list[str] = []
    for server in result.found:
        where = ", ".join(f"{key} {value}" for key, value in server.config.items())
        lines.append(printable(f"{server.title} ({server.type}: {where})"))
        for what, subjects in (("body", server.bodies), ("skeleton", server.skeletons)):
            for name, rate_hz in subjects:
                rate = "rate unknown" if rate_hz is None else f"{rate_hz:.1f} Hz"
                lines.append(printable(f"  {what:<9}{name:<24} {rate}"))
        if not server.bodies and not server.skeletons:
            lines.append(
                "  no bodies: define a rigid body in the mocap program and switch its streaming on"
            )
    lines += [printable(f"serial device {device}") for device in result.serial]
    lines += [printable(f"left out: {name}: {reason}") for name, reason in result.failed.items()]
    return [
        *lines,
        "",
        "A room each, a body is a vehicle (or `prop`), a skeleton a human: rename and "
        "delete as you like.",
        "The camera `front` sits on the first vehicle; `vil-bridge renderer` or "
        "FlightGoggles draws it.",
    ]
