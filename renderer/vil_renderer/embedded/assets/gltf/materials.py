"""Materials and textures of a glTF file; each is made once and shared."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf import schema, schema_materials
from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.gltf.finishes import Finishes, rough_texture
from vil_renderer.embedded.assets.gltf.images import (
    GLTF_PICTURES,
    PictureBudget,
    decode_image,
    open_image,
)
from vil_renderer.embedded.assets.model import Dielectric, Material, Texture, TextureUse, Wrap

logger = logging.getLogger(__name__)

_WRAPS: Final[dict[int, Wrap]] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
_ALPHA: Final[dict[str, Literal["opaque", "mask", "blend"]]] = {
    "OPAQUE": "opaque",
    "MASK": "mask",
    "BLEND": "blend",
}
_UV_SETS: Final = 2
_NEAREST: Final = 9728


@dataclass(slots=True)
class Materials:
    """Materials of a file.

    Attributes:
        limit_px: longest side of a texture, None = 4096.
        budget: of the scene, for its pictures.
    """

    document: Document
    limit_px: int | None = None
    budget: PictureBudget = field(default_factory=PictureBudget)
    _materials: dict[int | None, Material] = field(
        default_factory=lambda: {None: Material(metallic=1.0)}
    )
    _textures: dict[int, Texture | None] = field(default_factory=dict)
    _images: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def get(self, index: int | None, user: str) -> Material:
        """Return the material, or the specification's default for None.

        Raises:
            AssetError: it, a texture or a picture does not exist or is broken.
        """
        if index not in self._materials and index is not None:
            described = self.document.item(self.document.gltf.materials, "material", index, user)
            self._materials[index] = self._make(described, f"material {index}")
        return self._materials[index]

    def _make(self, described: schema_materials.GltfMaterial, element: str) -> Material:
        if described.extensions.glossy is not None and described.extensions.unlit is None:
            return replace(
                self._glossy(described.extensions.glossy, element),
                **self._common(described, element),
            )
        surface = described.pbr_metallic_roughness
        finishes = Finishes(self._use, element).of(described.extensions)
        return Material(
            base_colour=surface.base_color_factor,
            base=self._use(surface.base_color_texture, element),
            metallic=surface.metallic_factor,
            roughness=surface.roughness_factor,
            metal_rough=self._use(surface.metallic_roughness_texture, element),
            **finishes,
            **self._common(described, element),
        )

    def _common(self, described: schema_materials.GltfMaterial, element: str) -> dict[str, Any]:
        """Return what materials of both workflows have."""
        strength = described.extensions.strength.emissive_strength
        red, green, blue = (factor * strength for factor in described.emissive_factor)
        normal: TextureUse | None = None
        if described.normal_texture:
            normal = self._use(described.normal_texture, element, described.normal_texture.scale)
        occlusion: TextureUse | None = None
        if described.occlusion_texture:
            occlusion = self._use(
                described.occlusion_texture, element, described.occlusion_texture.strength
            )
        return {
            "name": described.name or element,
            "normal": normal,
            "occlusion": occlusion,
            "emissive_light": (red, green, blue),
            "emissive": self._use(described.emissive_texture, element),
            "alpha": _ALPHA[described.alpha_mode],
            "alpha_cutoff": described.alpha_cutoff,
            "double_sided": described.double_sided,
            "unlit": described.extensions.unlit is not None,
        }

    def _glossy(self, glossy: schema_materials.SpecularGlossiness, element: str) -> Material:
        """Return a material of diffuse colour, colour of the mirror and glossiness."""
        red, green, blue, alpha = glossy.diffuse_factor
        # A surface scatters what it does not mirror.
        left = 1.0
        if glossy.specular_glossiness_texture is None:
            left = 1.0 - min(max(glossy.specular_factor), 1.0)
        both = self._use(glossy.specular_glossiness_texture, element)
        rough = None
        roughness = max(1.0 - glossy.glossiness_factor, 0.0)
        if both is not None:
            roughness = 1.0
            self.document.spend(both.texture.pixels.size, element)
            rough = replace(both, texture=rough_texture(both.texture, glossy.glossiness_factor))
        return Material(
            base_colour=(red * left, green * left, blue * left, alpha),
            base=self._use(glossy.diffuse_texture, element),
            metallic=0.0,
            roughness=roughness,
            metal_rough=rough,
            dielectric=Dielectric(glossy.specular_factor, colour_use=both),
        )

    def _use(
        self, info: schema_materials.TextureInfo | None, element: str, strength: float = 1.0
    ) -> TextureUse | None:
        if info is None:
            return None
        change = info.extensions.transform
        uv_set = info.tex_coord
        if change is not None and change.tex_coord is not None:
            uv_set = change.tex_coord
        if uv_set >= _UV_SETS:
            logger.warning(
                "%s: %s: left out a texture on TEXCOORD_%d", self.document.name, element, uv_set
            )
            return None
        texture = self._texture(info.index, element)
        if texture is None:
            return None
        if change is None:
            return TextureUse(texture, uv_set, strength=strength)
        return TextureUse(texture, uv_set, _uv_matrix(change), strength)

    def _texture(self, index: int, user: str) -> Texture | None:
        if index in self._textures:
            return self._textures[index]
        described = self.document.item(self.document.gltf.textures, "texture", index, user)
        element = f"texture {index}"
        made = None
        source = _source(described)
        if source is None:
            # An extension that is not required names the picture.
            logger.warning(
                "%s: %s: left out, its picture is of no format that is read",
                self.document.name,
                element,
            )
        else:
            sampler = schema.Sampler()
            if described.sampler is not None:
                sampler = self.document.item(
                    self.document.gltf.samplers, "sampler", described.sampler, element
                )
            wrap = (_WRAPS[sampler.wrap_s], _WRAPS[sampler.wrap_t])
            image = self.document.item(self.document.gltf.images, "image", source, element)
            name = image.name or _image_name(image, source)
            made = Texture(self._pixels(source, image), wrap, name, sampler.mag_filter == _NEAREST)
        self._textures[index] = made
        return made

    def _pixels(self, index: int, image: schema.Image) -> npt.NDArray[np.uint8]:
        if not self._images:
            self._reserve()
        if index not in self._images:
            data = self._data(index, image)
            self._images[index] = decode_image(
                data, f"{self.document.name}: image {index}", self.limit_px, GLTF_PICTURES
            )
        return self._images[index]

    def _data(self, index: int, image: schema.Image) -> bytes:
        element = f"image {index}"
        if image.uri is not None:
            return self.document.fetch(image.uri, element)
        if image.buffer_view is not None:
            return bytes(self.document.view(image.buffer_view, element))
        raise self.document.error(element, "names neither a file nor a buffer view")

    def _reserve(self) -> None:
        """Take what all pictures of the file need from the budget, before the first one is
        decoded.
        """
        gltf = self.document.gltf
        for index in sorted({source for t in gltf.textures if (source := _source(t)) is not None}):
            try:
                image = gltf.images[index]
                label = (
                    f"{self.document.name}: image {index} "
                    f"({image.name or _image_name(image, index)})"
                )
                opened = open_image(self._data(index, image), label, GLTF_PICTURES)
            except (AssetError, IndexError):
                continue  # said when a material uses it
            with opened:
                self.budget.reserve(opened, label, self.limit_px)


def _source(texture: schema.GltfTexture) -> int | None:
    """Return the number of a texture's picture.

    Of a better format if it names one, else its own.
    """
    others = texture.extensions
    return next(
        (s for s in (others.avif.source, others.webp.source, texture.source) if s is not None), None
    )


def _image_name(image: schema.Image, index: int) -> str:
    """Return a label for a picture without a name."""
    if image.uri is not None and not image.uri.startswith("data:"):
        return image.uri
    return f"image {index}"


def _uv_matrix(change: schema_materials.UvTransform) -> npt.NDArray[np.float64]:
    """Return KHR_texture_transform as (2, 3): scale, turn, move.

    Positive angles turn the coordinates counter-clockwise as seen on the picture, whose v points
    down; so the extension's own examples want it, though its GLSL has the other sign.
    """
    c = math.cos(change.rotation)
    s = math.sin(change.rotation)
    (scale_u, scale_v), (offset_u, offset_v) = change.scale, change.offset
    return np.array([[scale_u * c, scale_v * s, offset_u], [-scale_u * s, scale_v * c, offset_v]])
