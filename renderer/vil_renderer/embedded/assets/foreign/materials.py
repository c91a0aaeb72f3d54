"""Conversion of trimesh's materials and colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vil_bridge.optics.tone_curve import linear
from vil_renderer.embedded.assets.gltf.images import PictureBudget, pixels_of
from vil_renderer.embedded.assets.model import Material, Texture, TextureUse


@dataclass(slots=True)
class MaterialConverter:
    """Converter of trimesh's materials; each picture is decoded once.

    Attributes:
        name: of the file, for messages. limit_px: longest side of a texture, None = 4096.
        budget: of the scene, for its pictures.
    """

    name: str
    limit_px: int | None
    budget: PictureBudget
    _textures: dict[int, Texture] = field(default_factory=dict)

    def material(self, described: Any) -> Material:
        """Convert a SimpleMaterial (OBJ, PLY), a PBRMaterial (COLLADA) or None.

        Raises:
            AssetError: a picture is broken.
        """
        if described is None:
            return Material()
        if hasattr(described, "diffuse"):
            return self._simple(described)
        base = self._use(described.baseColorTexture)
        emissive = described.emissiveFactor
        red, green, blue = (
            (0.0, 0.0, 0.0) if emissive is None else linear(np.asarray(emissive[:3], np.float64))
        )
        return Material(
            name=str(described.name or ""),
            base_colour=_factor(described.baseColorFactor, base),
            base=base,
            metallic=_number(described.metallicFactor, 0.0),
            roughness=_number(described.roughnessFactor, 1.0),
            normal=self._use(described.normalTexture),
            emissive_light=(float(red), float(green), float(blue)),
            alpha=_alpha(described.baseColorFactor),
        )

    def _simple(self, described: Any) -> Material:
        base = self._use(described.image)
        dissolve = described.kwargs.get("d", ["1"])
        colour = np.array(described.diffuse, np.float64)
        colour[3] = 255.0 * min(max(_number(dissolve[-1], 1.0), 0.0), 1.0)
        exponent = max(_number(described.glossiness, 0.0), 0.0)
        return Material(
            name=str(described.name or ""),
            base_colour=_factor(colour, base),
            base=base,
            # The width of the highlight of a Blinn-Phong exponent.
            roughness=float((2.0 / (exponent + 2.0)) ** 0.25),
            alpha=_alpha(colour),
        )

    def _use(self, image: Any) -> TextureUse | None:
        if image is None:
            return None
        if id(image) not in self._textures:
            label = str(image.info.get("file_path", "texture"))
            self.budget.reserve(image, f"{self.name}: {label}", self.limit_px)
            pixels = pixels_of(image, f"{self.name}: {label}", self.limit_px)
            self._textures[id(image)] = Texture(pixels, name=label)
        return TextureUse(self._textures[id(image)])


def linear_colours(colours: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return displayed colours (n, 3) or (n, 4), integers of 0..255 or 0..1, as linear bytes.

    N, 4.
    """
    display = colours.astype(np.float64) / (255.0 if colours.dtype.kind in "iu" else 1.0)
    display = np.nan_to_num(display).clip(0.0, 1.0)
    made = np.full((len(colours), 4), 255, np.uint8)
    made[:, : display.shape[1]] = np.rint(255.0 * display)
    made[:, :3] = np.rint(255.0 * linear(display[:, :3]))
    return made


def _factor(colour: Any, base: TextureUse | None) -> tuple[float, float, float, float]:
    """Return the linear factor of displayed bytes.

    A texture replaces the colour that exporters write with it.
    """
    display = np.ones(4) if colour is None else np.asarray(colour, np.float64) / 255.0
    red, green, blue = (1.0, 1.0, 1.0) if base is not None else linear(display[:3])
    return float(red), float(green), float(blue), float(display[3])


def _alpha(colour: Any) -> Any:
    return "blend" if colour is not None and colour[3] < 255 else "opaque"


def _number(value: Any, otherwise: float) -> float:
    """Return a finite number, whatever the file contains."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return otherwise
    return number if np.isfinite(number) else otherwise
