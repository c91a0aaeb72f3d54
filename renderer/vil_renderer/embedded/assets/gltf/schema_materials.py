"""The materials in the JSON of glTF 2.0 as types.

Source: the glTF 2.0 specification and the extensions named in the types.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vil_renderer.embedded.assets.gltf.schema_basics import (
    Colour,
    Factor,
    GltfObject,
    Index,
    Number,
    Pair,
)


class UvTransform(GltfObject, frozen=True):
    """KHR_texture_transform."""

    offset: Pair = (0.0, 0.0)
    rotation: Number = 0.0
    scale: Pair = (1.0, 1.0)
    tex_coord: Index | None = None


class TextureExtensions(GltfObject, frozen=True):
    """Extensions of a texture's use."""

    transform: UvTransform | None = msgspec.field(default=None, name="KHR_texture_transform")


class TextureInfo(GltfObject, frozen=True):
    """A texture's use; ``scale`` belongs to normal maps, ``strength`` to occlusion."""

    index: Index
    tex_coord: Index = 0
    scale: Number = 1.0
    strength: Factor = 1.0
    extensions: TextureExtensions = TextureExtensions()


class MetallicRoughness(GltfObject, frozen=True):
    """pbrMetallicRoughness."""

    base_color_factor: tuple[Factor, Factor, Factor, Factor] = (1.0, 1.0, 1.0, 1.0)
    base_color_texture: TextureInfo | None = None
    metallic_factor: Factor = 1.0
    roughness_factor: Factor = 1.0
    metallic_roughness_texture: TextureInfo | None = None


class EmissiveStrength(GltfObject, frozen=True):
    """KHR_materials_emissive_strength."""

    emissive_strength: Factor = 1.0


class Unlit(GltfObject, frozen=True):
    """KHR_materials_unlit, empty."""


class Clearcoat(GltfObject, frozen=True):
    """KHR_materials_clearcoat."""

    clearcoat_factor: Factor = 0.0
    clearcoat_texture: TextureInfo | None = None
    clearcoat_roughness_factor: Factor = 0.0
    clearcoat_roughness_texture: TextureInfo | None = None
    clearcoat_normal_texture: TextureInfo | None = None


class Ior(GltfObject, frozen=True):
    """KHR_materials_ior; 0 = everything is mirrored."""

    ior: Factor = 1.5


class Specular(GltfObject, frozen=True):
    """KHR_materials_specular."""

    specular_factor: Factor = 1.0
    specular_texture: TextureInfo | None = None
    specular_color_factor: Colour = (1.0, 1.0, 1.0)
    specular_color_texture: TextureInfo | None = None


class SheenFinish(GltfObject, frozen=True):
    """KHR_materials_sheen."""

    sheen_color_factor: Colour = (0.0, 0.0, 0.0)
    sheen_color_texture: TextureInfo | None = None
    sheen_roughness_factor: Factor = 0.0
    sheen_roughness_texture: TextureInfo | None = None


class TransmissionFinish(GltfObject, frozen=True):
    """KHR_materials_transmission."""

    transmission_factor: Factor = 0.0
    transmission_texture: TextureInfo | None = None


class Volume(GltfObject, frozen=True):
    """KHR_materials_volume, as far as it tints light that passes straight through."""

    thickness_factor: Factor = 0.0
    attenuation_distance: Annotated[float, Meta(gt=0.0, le=1e12)] | None = None
    attenuation_color: Colour = (1.0, 1.0, 1.0)


class SpecularGlossiness(GltfObject, frozen=True):
    """KHR_materials_pbrSpecularGlossiness."""

    diffuse_factor: tuple[Factor, Factor, Factor, Factor] = (1.0, 1.0, 1.0, 1.0)
    diffuse_texture: TextureInfo | None = None
    specular_factor: Colour = (1.0, 1.0, 1.0)
    glossiness_factor: Factor = 1.0
    specular_glossiness_texture: TextureInfo | None = None


class MaterialExtensions(GltfObject, frozen=True):
    """Extensions of a material."""

    unlit: Unlit | None = msgspec.field(default=None, name="KHR_materials_unlit")
    strength: EmissiveStrength = msgspec.field(
        default=EmissiveStrength(), name="KHR_materials_emissive_strength"
    )
    coat: Clearcoat | None = msgspec.field(default=None, name="KHR_materials_clearcoat")
    ior: Ior | None = msgspec.field(default=None, name="KHR_materials_ior")
    specular: Specular | None = msgspec.field(default=None, name="KHR_materials_specular")
    sheen: SheenFinish | None = msgspec.field(default=None, name="KHR_materials_sheen")
    transmission: TransmissionFinish | None = msgspec.field(
        default=None, name="KHR_materials_transmission"
    )
    volume: Volume | None = msgspec.field(default=None, name="KHR_materials_volume")
    glossy: SpecularGlossiness | None = msgspec.field(
        default=None, name="KHR_materials_pbrSpecularGlossiness"
    )


class GltfMaterial(GltfObject, frozen=True):
    """A metallic-roughness material."""

    name: str = ""
    pbr_metallic_roughness: MetallicRoughness = MetallicRoughness()
    normal_texture: TextureInfo | None = None
    occlusion_texture: TextureInfo | None = None
    emissive_texture: TextureInfo | None = None
    emissive_factor: Colour = (0.0, 0.0, 0.0)
    alpha_mode: Literal["OPAQUE", "MASK", "BLEND"] = "OPAQUE"
    alpha_cutoff: Factor = 0.5
    double_sided: bool = False
    extensions: MaterialExtensions = MaterialExtensions()
