"""Help for the tests that draw files which nobody here made."""

from __future__ import annotations

from pathlib import Path

from tests.support.common import data_dir
from tests.support.render import camera
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scenefile import load_scene

CAMERA = camera("assets", (320, 240))
S = 1_000_000_000


def scene_file(folder: Path, text: str) -> Scene:
    path = folder / "scene.yaml"
    path.write_text(text.replace("ASSETS", str(data_dir("assets"))))
    return load_scene(path)
