"""References between the parts of a scene file and to other files, checked on plain data.

Working on plain data lets these problems be reported together with those inside the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from vil_bridge.config.error_report import entry
from vil_bridge.config.references import similar
from vil_bridge.config.yaml_positions import Path
from vil_renderer.embedded.assets.importers import FORMATS
from vil_renderer.embedded.scene import CLASSES, Scene
from vil_renderer.embedded.scenes.surfaces import SURFACES
from vil_renderer.embedded.splats.read import FORMATS as SPLAT_FORMATS

Reference = tuple[Path, str]
PROXY: Final = "splats"
"""Name of the object that replaces the splats."""

_PICTURE_SUFFIXES: Final = (".png", ".jpg", ".jpeg")
_SINGULAR: Final = {"objects": "object", "lights": "light", "beacons": "beacon", "gates": "gate"}


def reference_problems(
    data: Mapping[str, Any], folder: FilePath, base: Scene | None
) -> Iterator[Reference]:
    """Return all contradictions within the file, and with the base or the files next to it.

    Args:
        data: the scene file as plain data, possibly wrong in other ways.
        folder: where its relative paths start.
        base: the scene it starts from.
    """
    yield from _names(data, base)
    yield from _instances(data, base)
    yield from _classes(data)
    yield from _files(data, folder)
    suns = [path for path, light in _list(data, "lights") if light.get("kind") == "directional"]
    if suns and entry(data.get("environment"), "sun") is not None:
        yield suns[0], "environment.sun is there already; a scene has one light from far away"
    for path in suns[1:]:
        yield (
            path,
            f"{_dotted(suns[0])} is directional already; a scene has one light from far away",
        )


def _list(data: Mapping[str, Any], section: str) -> list[tuple[Path, Mapping[str, Any]]]:
    found = data.get(section)
    if not isinstance(found, list):
        return []
    return [
        ((section, index), body) for index, body in enumerate(found) if isinstance(body, Mapping)
    ]


def _prefabs(data: Mapping[str, Any]) -> list[tuple[Path, Mapping[str, Any]]]:
    found = data.get("prefabs")
    if not isinstance(found, Mapping):
        return []
    return [(("prefabs", name), body) for name, body in found.items() if isinstance(body, Mapping)]


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


# --- names and ids -------------------------------------------------------------------------------


def _names(data: Mapping[str, Any], base: Scene | None) -> Iterator[Reference]:
    taken: dict[tuple[str, str], str] = {}
    if base:
        shipped = {
            "objects": [thing.name for thing in base.objects],
            "lights": [lamp.name for lamp in base.lamps],
            "beacons": [beacon.name for beacon in base.beacons],
            "gates": [gate.name for gate in base.gates],
        }
        taken = {
            (section, name): f"the base {base.name!r}"
            for section, names in shipped.items()
            for name in names
        }
    claims = [
        (section, path, body.get("name"))
        for section in _SINGULAR
        for path, body in _list(data, section)
    ]
    claims += _generated(data)
    if isinstance(data.get("splats"), Mapping):
        claims.insert(0, ("objects", ("splats",), PROXY))
    for section, path, name in claims:
        if not isinstance(name, str):
            continue
        where = taken.setdefault((section, name), _dotted(path))
        if where != _dotted(path):
            yield (
                (*path, "name"),
                f"another {_SINGULAR[section]} is named {name!r} already, in {where}",
            )


def _generated(data: Mapping[str, Any]) -> Iterator[tuple[str, Path, Any]]:
    """Return objects and beacons that come with the frames of gates."""
    for path, gate in _list(data, "gates"):
        frame = gate.get("frame")
        if isinstance(frame, Mapping):
            yield "objects", path, gate.get("name")
            if frame.get("beacons", True) is True:
                yield from (
                    ("beacons", path, f"{gate.get('name')}_{corner}") for corner in range(1, 5)
                )


def _instances(data: Mapping[str, Any], base: Scene | None) -> Iterator[Reference]:
    taken: dict[int, str] = {}
    if base:
        taken = {thing.instance: f"the base's {thing.name!r}" for thing in base.objects}
    for path, body in _list(data, "objects"):
        number = body.get("instance")
        if isinstance(number, int):
            where = taken.setdefault(number, _dotted(path))
            if where != _dotted(path):
                yield (
                    (*path, "instance"),
                    f"{number} is the instance of {where} already; leave it out for a free one",
                )


def known_classes(own: Mapping[Any, Any]) -> dict[str, int]:
    """Return the built-in classes and the file's own."""
    return {**CLASSES, **{name: number for name, number in own.items() if isinstance(name, str)}}


def _classes(data: Mapping[str, Any]) -> Iterator[Reference]:
    written = data.get("classes")
    own = written if isinstance(written, Mapping) else {}
    numbers: dict[Any, str] = {}
    for name, number in own.items():
        if name in CLASSES:
            yield (
                ("classes", name),
                f"{name!r} is built in with id {CLASSES[name]}; choose another name",
            )
        other = numbers.setdefault(number, name) if isinstance(number, int) else name
        if other != name:
            yield ("classes", name), f"{number} is the id of {other!r} already"
    known = known_classes(own)
    users = [*_list(data, "objects"), *_prefabs(data), (("splats",), data.get("splats"))]
    for path, body in users:
        name = entry(body, "class")
        if isinstance(name, str) and name not in known:
            hint = similar(name, known) or "; add it to `classes`"
            yield (*path, "class"), f"no class is named {name!r}{hint}"


# --- files and surfaces ---------------------------------------------------------------------------


def _files(data: Mapping[str, Any], folder: FilePath) -> Iterator[Reference]:
    for path, body in [*_list(data, "objects"), *_prefabs(data)]:
        yield from _file((*path, "file"), body.get("file"), folder, FORMATS)
        texture = entry(body.get("material"), "texture")
        yield from _file((*path, "material", "texture"), texture, folder, _PICTURE_SUFFIXES)
        surface = entry(body.get("material"), "surface")
        if isinstance(surface, str) and surface not in SURFACES:
            hint = similar(surface, SURFACES) or f"; known: {', '.join(sorted(SURFACES))}"
            yield (*path, "material", "surface"), f"no surface is named {surface!r}{hint}"
    splats = data.get("splats")
    yield from _file(("splats", "file"), entry(splats, "file"), folder, SPLAT_FORMATS)
    yield from _file(("splats", "proxy"), entry(splats, "proxy"), folder, FORMATS)
    yield from _file(("obstacle_perturbation",), data.get("obstacle_perturbation"), folder, ())


def _file(path: Path, given: Any, folder: FilePath, suffixes: Iterable[str]) -> Iterator[Reference]:
    if not isinstance(given, str):
        return
    wanted = folder / given
    suffixes = tuple(suffixes)
    if suffixes and wanted.suffix.lower() not in suffixes:
        yield path, f"{given!r} is of no kind that is read here; known: {' '.join(suffixes)}"
        return
    try:
        if not wanted.is_file():
            names: list[str] = []
            if wanted.parent.is_dir():
                names = [p.name for p in wanted.parent.iterdir() if p.is_file()]
            yield path, f"there is no file {str(wanted)!r}{similar(wanted.name, names)}"
    except OSError as exc:
        yield path, f"cannot look for {str(wanted)[:120]!r}: {exc.strerror}"
