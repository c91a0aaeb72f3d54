"""glTF 2.0, read by ourselves.

We need what general mesh loaders drop: skins, animations, lights.
"""

from vil_renderer.embedded.assets.gltf.read import load_gltf

__all__ = ["load_gltf"]
