"""Scene files: YAML that a lab writes, to a :class:`vil_renderer.embedded.scene.Scene`.

docs/guides/scenes.md.
"""

from __future__ import annotations

from vil_renderer.embedded.scenefile.read import check_scene, load_scene, scene_names, schema

__all__ = ["check_scene", "load_scene", "scene_names", "schema"]
