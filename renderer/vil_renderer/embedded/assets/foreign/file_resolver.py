"""Files that a model names: found next to it or one folder up, of bounded size.

Missing ones are recorded.
"""

from __future__ import annotations

from pathlib import Path, PureWindowsPath
from typing import Final
from urllib.parse import unquote

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf.container import read_file
from vil_renderer.embedded.assets.gltf.images import open_image

_PICTURES: Final = ("PNG", "JPEG", "BMP", "TGA", "TIFF", "WEBP")
# Where models of Gazebo and of common exporters keep them when the path in the file leads nowhere.
_USUAL: Final = (".", "textures", "../textures", "../materials/textures")


class AssetFileResolver:
    """Resolver for trimesh, which swallows our errors: the first one is stored.

    Attributes:
        problem: why something that the model names could not be read, None while everything was.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._folder = path.parent.resolve()
        self.problem: AssetError | None = None

    def get(self, name: str) -> bytes:
        """Return the bytes of the file that the model calls ``name``.

        Raises:
            AssetError: it is absent, elsewhere, too large, or neither a material file nor a
                picture.
        """
        try:
            data = read_file(self._find(name), f"{self._name}: {name[:120]}")
            if not name.lower().endswith(".mtl"):
                open_image(data, f"{self._name}: {name[:120]}", _PICTURES).close()
        except AssetError as exc:
            self.problem = self.problem or exc
            raise
        return data

    __getitem__ = get

    def _find(self, name: str) -> Path:
        # Paths of other machines: only their last part can help here.
        relative = unquote(name.removeprefix("file://")).replace("\\", "/")
        last = PureWindowsPath(relative).name
        tried = [relative, *(f"{folder}/{last}" for folder in _USUAL)]
        for candidate in tried:
            try:
                path = (self._folder / candidate).resolve()
                if path.is_relative_to(self._folder.parent) and path.is_file():
                    return path
            except (OSError, ValueError, RuntimeError):
                continue
        places = "the model's folder, the one above it, and their textures and materials/textures"
        raise AssetError(f"{self._name}: refers to {name[:120]!r}, which is not in {places}")
