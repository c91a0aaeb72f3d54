"""glTF 2.0, read by ourselves: what general mesh loaders drop (skins, animations, lights) is what we need."""

from vil_renderer.embedded.assets.gltf.read import load_gltf

__all__ = ["load_gltf"]
