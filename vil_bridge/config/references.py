"""References between the sections of a configuration, checked on plain data.

Working on plain data lets the loader report them together with the errors inside the sections.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vil_bridge.core.names import source_of

WORLD: Final = "world"
RIGHT: Final = "_right"
"""Ends the name of the right camera of a stereo pair."""
MOST_ACTORS: Final = 1000
"""That one entry may stand for."""
AUTO: Final = "auto"
"""Instead of a renderer's name: the least loaded one."""


class ReferenceProblem(NamedTuple):
    """A reference that leads nowhere."""

    path: tuple[str | int, ...]
    reason: str


def similar(name: object, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or nothing when no known name is close."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    folded = str(name).casefold()
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    close = (
        close or [known for known in by_folded if len(folded) > 2 and known.startswith(folded)][:1]
    )
    return f" (did you mean {by_folded[close[0]]!r}?)" if close else ""


def with_every_actor(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return plain data in which an actor with a ``count`` becomes NAME_1, NAME_2... of the
    subjects SUBJECT_1...

    Wrong data stay unchanged, so that they are reported at their place.
    """
    actors = config.get("actors")
    if not isinstance(actors, Mapping) or not any(_is_several(actor) for actor in actors.values()):
        return config
    every: dict[Any, Any] = {}
    for name, actor in actors.items():
        if not _is_several(actor):
            every[name] = actor
            continue
        one = {key: value for key, value in actor.items() if key != "count"}
        for i in range(1, actor["count"] + 1):
            copy = {**one, "subject": f"{actor['subject']}_{i}"}
            if isinstance(actor.get("imu"), str):
                copy["imu"] = f"{actor['imu']}_{i}"
            every[f"{name}_{i}"] = copy
    return {**config, "actors": every}


def _is_several(actor: Any) -> bool:
    if not isinstance(actor, Mapping) or not isinstance(actor.get("subject"), str):
        return False
    count = actor.get("count")
    return isinstance(count, int) and not isinstance(count, bool) and 1 < count <= MOST_ACTORS


def reference_problems(config: Mapping[str, Any]) -> list[ReferenceProblem]:
    """Return all references between the bridge's own sections of ``config`` (plain data with every
    actor, possibly wrong in other ways) that lead nowhere.
    """
    checks = (_rooms, _actors, _renderers, _cameras, _federated, _outputs)
    return [problem for check in checks for problem in check(config)]


def entries(config: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a section by name, without those that hold no keys."""
    found = config.get(kind)
    if not isinstance(found, Mapping):
        return {}
    return {name: body for name, body in found.items() if isinstance(body, Mapping)}


def unknown(
    config: Mapping[str, Any], kind: str, name: Any, path: tuple[str | int, ...]
) -> Iterator[ReferenceProblem]:
    """Yield the problem of a name that no entry of a section has.

    Args:
        config: whole, plain data.
        kind: the section, such as ``actors``.
        name: what was written; other types are reported elsewhere.
        path: where it was written.
    """
    if not isinstance(name, str):
        return
    found = config.get(kind)
    known = list(found) if isinstance(found, Mapping) else []
    if name not in known:
        singular = kind.removesuffix("s")
        listed = f"known: {', '.join(map(str, known))}" if known else f"the file has no {kind}"
        yield ReferenceProblem(
            path, f"no {singular} is named {name!r}; {listed}{similar(name, known)}"
        )


def _rooms(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    for name, source in entries(config, "sources").items():
        yield from unknown(config, "rooms", source.get("room"), ("sources", name, "room"))


def _actors(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    sources = entries(config, "sources")
    bound: dict[tuple[str, str], str] = {}
    for name, actor in entries(config, "actors").items():
        path = ("actors", name)
        if name == WORLD:
            yield ReferenceProblem(
                path, f"{WORLD!r} is the world itself; give the actor another name"
            )
        source = actor.get("source")
        subject = actor.get("subject")
        yield from unknown(config, "sources", source, (*path, "source"))
        yield from unknown(config, "sources", _source_of_imu(actor.get("imu")), (*path, "imu"))
        if not isinstance(source, str) or not isinstance(subject, str):
            continue
        if source in sources and sources[source].get("room") is None:
            reason = (
                f"source {source!r} has no room, so it gives no poses; add `room:` to "
                f"sources.{source}"
            )
            yield ReferenceProblem((*path, "source"), reason)
        other = bound.setdefault((source, subject), name)
        if other != name:
            yield ReferenceProblem(
                (*path, "subject"), f"{subject!r} of {source!r} is already the actor {other!r}"
            )


def _source_of_imu(imu: Any) -> Any:
    """Return the named source; of several sensors in one source, ``SOURCE/SUBJECT`` names one."""
    return source_of(imu) if isinstance(imu, str) else imu


def _renderers(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    if AUTO in entries(config, "renderers"):
        reason = f"{AUTO!r} as a camera's renderer means all of them; give this one another name"
        yield ReferenceProblem(("renderers", AUTO), reason)


def _cameras(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    for name, camera in entries(config, "cameras").items():
        if camera.get("actor") != WORLD:
            yield from unknown(config, "actors", camera.get("actor"), ("cameras", name, "actor"))
        yield from _drawn_by(config, camera.get("renderer"), ("cameras", name, "renderer"))
        right = f"{name}{RIGHT}"
        if camera.get("stereo_baseline_m") is not None and right in entries(config, "cameras"):
            reason = (
                f"the right camera of this pair is named {right!r}, as another camera: give "
                "that one another name"
            )
            yield ReferenceProblem(("cameras", name, "stereo_baseline_m"), reason)


def _drawn_by(
    config: Mapping[str, Any], renderer: Any, path: tuple[str, ...]
) -> Iterator[ReferenceProblem]:
    """Yield the problems of a camera's renderer: a name, a list of names, or ``auto`` for all."""
    if renderer == AUTO:
        if not entries(config, "renderers"):
            yield ReferenceProblem(
                path, f"{AUTO!r} chooses among the renderers; the file has no renderers"
            )
        return
    several = isinstance(renderer, Sequence) and not isinstance(renderer, str)
    names = list(renderer) if several else [renderer]
    if not names:
        yield ReferenceProblem(path, "name at least one renderer")
    for i, name in enumerate(names):
        if name in names[:i]:
            yield ReferenceProblem(path, f"{name!r} is listed twice")
        else:
            yield from unknown(config, "renderers", name, path)


def camera_entries(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the cameras by name, those at the right of a pair too."""
    cameras = entries(config, "cameras")
    pairs = {
        f"{n}{RIGHT}": camera
        for n, camera in cameras.items()
        if camera.get("stereo_baseline_m") is not None
    }
    return {**cameras, **pairs}


def _federated(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    federation = config.get("federation")
    if not isinstance(federation, Mapping):
        return
    names = federation.get("actors")
    if not isinstance(names, Sequence) or isinstance(names, str):
        return
    actors = entries(config, "actors")
    sources = entries(config, "sources")
    for i, name in enumerate(names):
        path = ("federation", "actors", i)
        yield from unknown(config, "actors", name, path)
        source = actors.get(name, {}).get("source") if isinstance(name, str) else None
        if isinstance(source, str) and sources.get(source, {}).get("type") == "federation":
            yield ReferenceProblem(
                path, f"{name!r} comes from another bridge; only own actors can be published"
            )


def _outputs(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    """Yield unknown cameras (a pair's right one is known), actors and maps that outputs name."""
    known = {
        "cameras": camera_entries(config),
        "actors": config.get("actors"),
        "maps": config.get("maps"),
    }
    for name, output in entries(config, "outputs").items():
        for kind in known:
            names = output.get(kind)
            if isinstance(names, Sequence) and not isinstance(names, str):
                for i, wanted in enumerate(names):
                    yield from unknown(known, kind, wanted, ("outputs", name, kind, i))
