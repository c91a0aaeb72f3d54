"""Reading of scene files: every problem at once, as ``file:line:column: key: what is wrong``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vil_bridge.config.error_report import Problem, explain, read_tree, written
from vil_bridge.config.references import similar
from vil_bridge.config.yaml_positions import Tree
from vil_bridge.core.errors import RendererError
from vil_renderer.embedded.scene import CLASSES, Scene, static_triangles
from vil_renderer.embedded.scenefile.build import Builder
from vil_renderer.embedded.scenefile.models import SceneFile
from vil_renderer.embedded.scenefile.references import reference_problems

Bases = Mapping[str, Callable[[], Scene]]
"""Shipped scenes by name."""


def _shipped() -> Bases:
    from vil_renderer.embedded.scenes import SCENES

    return SCENES


def scene_names() -> list[str]:
    """Return names of the shipped scenes."""
    return sorted(_shipped())


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a scene file, for completion and checks in editors."""
    made = SceneFile.model_json_schema()
    made["properties"]["base"]["anyOf"][0]["enum"] = scene_names()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": "VIL Bridge scene",
    }


def load_scene(name_or_path: str | Path, bases: Bases | None = None) -> Scene:
    """Return a shipped scene by its name, or the scene that a file describes.

    Args:
        name_or_path: a text with a suffix or a slash is a file.
        bases: scenes by name; None = the shipped ones.

    Raises:
        RendererError: one line for every problem; other files are read when the scene file itself
            is right.
    """
    known = _shipped() if bases is None else bases
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or "/" in text or Path(text).suffix:
        return _read(Path(name_or_path), known)
    if text not in known:
        hint = similar(text, known) or "; a scene file is named with its suffix (.yaml)"
        raise RendererError(f"no scene is named {text!r}; known: {', '.join(sorted(known))}{hint}")
    return known[text]()


def _read(path: Path, known: Bases) -> Scene:
    tree = read_tree(path, "`scene: NAME` and `objects:` make a scene (docs/guides/scenes.md)")
    config, base, problems = _understand(tree, path.parent, known)
    problems += tree.problems
    if config is None or problems:
        raise RendererError("\n".join(written(problems)))
    builder = Builder(config, path.parent, base)
    scene = builder.scene()
    if builder.problems or builder.notes:
        raise RendererError(
            "\n".join([*written(explain(None, tree, SceneFile, builder.problems)), *builder.notes])
        )
    return scene


def _understand(
    tree: Tree, folder: Path, known: Bases
) -> tuple[SceneFile | None, Scene | None, list[Problem]]:
    """Return the file as a value and the scene it starts from, or its problems."""
    if not isinstance(tree.data, dict):
        return None, None, []
    named = tree.data.get("base")
    base = known[named]() if isinstance(named, str) and named in known else None
    references = list(reference_problems(tree.data, folder, base))
    if isinstance(named, str) and base is None:
        listed = f"known: {', '.join(sorted(known))}{similar(named, known)}"
        references.append((("base",), f"no shipped scene is named {named!r}; {listed}"))
    config: SceneFile | None = None
    wrong: ValidationError | None = None
    try:
        config = SceneFile.model_validate(tree.data)
    except ValidationError as exc:
        wrong = exc
    return config, base, explain(wrong, tree, SceneFile, references)


def check_scene(name_or_path: str | Path, bases: Bases | None = None) -> list[str]:
    """Read a whole scene and return its contents, one line each.

    Raises:
        RendererError: as :func:`load_scene`.
    """
    return summary(load_scene(name_or_path, bases))


def summary(scene: Scene) -> list[str]:
    """Return the contents of a scene, one line each."""
    drawn = sum(
        len(p.triangles) for o in scene.objects for node in o.asset.nodes for p in node.primitives
    )
    movable = [thing.name for thing in scene.objects if thing.movable]
    carriers = sorted({b.carrier for b in scene.beacons if b.carrier} - set(movable))
    own = [f"{name} ({number})" for name, number in scene.classes.items() if name not in CLASSES]
    lines = {
        "objects": f"{len(scene.objects)}{_listed(' (movable: ', movable)}",
        "triangles": f"{drawn:,} drawn, {len(static_triangles(scene).triangles):,} solid and still",
        "lights": f"{len(scene.lamps)} lamps, {'a sun' if scene.environment.sun else 'no sun'}",
        "beacons": f"{len(scene.beacons)}{_listed(' (on actors: ', carriers)}",
        "gates": ", ".join(gate.name for gate in scene.gates) or "none",
        "prefabs": ", ".join(scene.prefabs) or "none",
        "classes": f"{len(scene.classes)}{_listed(', its own: ', own, '')}",
    }
    if scene.splats:
        lines["splats"] = str(scene.splats.path)
    return [f"{what}: {text}" for what, text in lines.items()]


def _listed(before: str, names: list[str], after: str = ")") -> str:
    return f"{before}{', '.join(names)}{after}" if names else ""
