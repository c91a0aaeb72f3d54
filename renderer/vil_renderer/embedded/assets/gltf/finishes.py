"""Coat, mirror, sheen and transmission of a glTF material, out of its extensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vil_renderer.embedded.assets.gltf import schema_materials as schema
from vil_renderer.embedded.assets.model import (
    Coat,
    Dielectric,
    Sheen,
    Texture,
    TextureUse,
    Transmission,
)

_Use = Callable[..., TextureUse | None]


@dataclass(frozen=True, slots=True)
class Finishes:
    """Reader of one material's finishes.

    Attributes:
        use: makes the use of a texture from its description, the element and its strength.
    """

    use: _Use
    element: str

    def of(self, extensions: schema.MaterialExtensions) -> dict[str, Any]:
        """Return the finishes that a material has, by the names that :class:`Material` gives
        them.
        """
        made = {
            "coat": self._coat(extensions.coat),
            "dielectric": self._dielectric(extensions.ior, extensions.specular),
            "sheen": self._sheen(extensions.sheen),
            "transmission": self._transmission(extensions.transmission, extensions.volume),
        }
        return {name: finish for name, finish in made.items() if finish is not None}

    def _map(self, info: schema.TextureInfo | None) -> TextureUse | None:
        return self.use(info, self.element)

    def _coat(self, coat: schema.Clearcoat | None) -> Coat | None:
        if coat is None or not coat.clearcoat_factor:
            return None
        normal = coat.clearcoat_normal_texture
        return Coat(
            coat.clearcoat_factor,
            coat.clearcoat_roughness_factor,
            self._map(coat.clearcoat_texture),
            self._map(coat.clearcoat_roughness_texture),
            self.use(normal, self.element, normal.scale if normal else 1.0),
        )

    def _dielectric(
        self, ior: schema.Ior | None, specular: schema.Specular | None
    ) -> Dielectric | None:
        if ior is None and specular is None:
            return None
        n = 1.5 if ior is None else ior.ior
        f0 = ((n - 1.0) / (n + 1.0)) ** 2
        specular = specular or schema.Specular()
        red, green, blue = (f0 * factor for factor in specular.specular_color_factor)
        return Dielectric(
            (red, green, blue),
            specular.specular_factor,
            self._map(specular.specular_texture),
            self._map(specular.specular_color_texture),
        )

    def _sheen(self, sheen: schema.SheenFinish | None) -> Sheen | None:
        if sheen is None or not any(sheen.sheen_color_factor):
            return None
        return Sheen(
            sheen.sheen_color_factor,
            sheen.sheen_roughness_factor,
            self._map(sheen.sheen_color_texture),
            self._map(sheen.sheen_roughness_texture),
        )

    def _transmission(
        self, transmission: schema.TransmissionFinish | None, volume: schema.Volume | None
    ) -> Transmission | None:
        """Return how light passes.

        A volume tints it by its thickness (Beer's law), and does not bend it.
        """
        if transmission is None or not transmission.transmission_factor:
            return None
        tint = np.ones(3)
        if volume is not None and volume.attenuation_distance is not None:
            lengths = volume.thickness_factor / volume.attenuation_distance
            tint = np.array(volume.attenuation_color).clip(0.0, 1.0) ** min(lengths, 1e3)
        red, green, blue = tint.tolist()
        share = min(transmission.transmission_factor, 1.0)
        return Transmission(share, self._map(transmission.transmission_texture), (red, green, blue))


def rough_texture(specular_glossiness: Texture, factor: float) -> Texture:
    """Return roughness in G and no metal in B, from a texture with glossiness in A."""
    pixels = specular_glossiness.pixels
    made = np.zeros((*pixels.shape[:2], 3), np.uint8)
    gloss = pixels[:, :, 3] if pixels.shape[2] == 4 else np.full(pixels.shape[:2], 255, np.uint8)
    made[:, :, 1] = np.rint((255.0 - factor * gloss).clip(0.0, 255.0))
    return Texture(
        made, specular_glossiness.wrap, specular_glossiness.name, specular_glossiness.nearest
    )
