"""The JSON of glTF 2.0 as types: msgspec checks them, and its errors name the element and what was found.

Only what we read. Numbers are bounded where a wild one could make later arithmetic overflow.
Source: the glTF 2.0 specification and the KHR extensions named in the types.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Index = Annotated[int, Meta(ge=0, le=2**31)]
Size = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[float, Meta(ge=-1e12, le=1e12)]
Factor = Annotated[float, Meta(ge=0.0, le=1e6)]
Pair = tuple[Number, Number]
Vector = tuple[Number, Number, Number]
Quaternion = tuple[Number, Number, Number, Number]
Colour = tuple[Factor, Factor, Factor]
Matrix = Annotated[tuple[Number, ...], Meta(min_length=16, max_length=16)]
ComponentType = Literal[5120, 5121, 5122, 5123, 5125, 5126]


class _Object(msgspec.Struct, rename="camel", frozen=True):
    """JSON object whose unknown members are ignored, as the specification requires."""


class AssetInfo(_Object, frozen=True):
    """Version of glTF."""

    version: str
    min_version: str | None = None


class Buffer(_Object, frozen=True):
    """Bytes in the GLB (no ``uri``), in the JSON or in a file next to it."""

    byte_length: Size
    uri: str | None = None


class BufferView(_Object, frozen=True):
    """A part of a buffer."""

    buffer: Index
    byte_length: Size
    byte_offset: Size = 0
    byte_stride: Annotated[int, Meta(ge=4, le=252)] | None = None


class SparseIndices(_Object, frozen=True):
    """Indices of the elements that differ."""

    buffer_view: Index
    component_type: Literal[5121, 5123, 5125]
    byte_offset: Size = 0


class SparseValues(_Object, frozen=True):
    """The elements that differ."""

    buffer_view: Index
    byte_offset: Size = 0


class Sparse(_Object, frozen=True):
    """Elements that differ from the accessor's own."""

    count: Size
    indices: SparseIndices
    values: SparseValues


class Accessor(_Object, frozen=True):
    """Elements of one type in a buffer view; all zero without one."""

    component_type: ComponentType
    count: Annotated[int, Meta(ge=1, le=2**53)]
    type: Literal["SCALAR", "VEC2", "VEC3", "VEC4", "MAT2", "MAT3", "MAT4"]
    buffer_view: Index | None = None
    byte_offset: Size = 0
    normalized: bool = False
    sparse: Sparse | None = None


class Image(_Object, frozen=True):
    """A PNG or JPEG."""

    uri: str | None = None
    buffer_view: Index | None = None
    name: str = ""


class Sampler(_Object, frozen=True):
    """Continuation of a texture beyond its edges; we choose the filters ourselves."""

    wrap_s: Literal[10497, 33071, 33648] = 10497
    wrap_t: Literal[10497, 33071, 33648] = 10497


class GltfTexture(_Object, frozen=True):
    """An image with a sampler."""

    source: Index | None = None
    sampler: Index | None = None


class UvTransform(_Object, frozen=True):
    """KHR_texture_transform."""

    offset: Pair = (0.0, 0.0)
    rotation: Number = 0.0
    scale: Pair = (1.0, 1.0)
    tex_coord: Index | None = None


class TextureExtensions(_Object, frozen=True):
    """Extensions of a texture's use."""

    transform: UvTransform | None = msgspec.field(default=None, name="KHR_texture_transform")


class TextureInfo(_Object, frozen=True):
    """A texture's use; ``scale`` belongs to normal maps, ``strength`` to occlusion."""

    index: Index
    tex_coord: Index = 0
    scale: Number = 1.0
    strength: Factor = 1.0
    extensions: TextureExtensions = TextureExtensions()


class MetallicRoughness(_Object, frozen=True):
    """pbrMetallicRoughness."""

    base_color_factor: tuple[Factor, Factor, Factor, Factor] = (1.0, 1.0, 1.0, 1.0)
    base_color_texture: TextureInfo | None = None
    metallic_factor: Factor = 1.0
    roughness_factor: Factor = 1.0
    metallic_roughness_texture: TextureInfo | None = None


class EmissiveStrength(_Object, frozen=True):
    """KHR_materials_emissive_strength."""

    emissive_strength: Factor = 1.0


class Unlit(_Object, frozen=True):
    """KHR_materials_unlit, empty."""


class MaterialExtensions(_Object, frozen=True):
    """Extensions of a material."""

    unlit: Unlit | None = msgspec.field(default=None, name="KHR_materials_unlit")
    strength: EmissiveStrength = msgspec.field(default=EmissiveStrength(), name="KHR_materials_emissive_strength")


class GltfMaterial(_Object, frozen=True):
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


class GaussianSplatting(_Object, frozen=True):
    """KHR_gaussian_splatting, with the extensions that compress its attributes."""

    kernel: str
    color_space: str
    extensions: dict[str, msgspec.Raw] = {}


class PrimitiveExtensions(_Object, frozen=True):
    """Extensions of a primitive."""

    splats: GaussianSplatting | None = msgspec.field(default=None, name="KHR_gaussian_splatting")


class MeshPrimitive(_Object, frozen=True):
    """Primitive: its attributes by name, each an accessor."""

    attributes: dict[str, Index]
    indices: Index | None = None
    material: Index | None = None
    mode: Annotated[int, Meta(ge=0, le=6)] = 4
    targets: list[dict[str, Index]] = []
    extensions: PrimitiveExtensions = PrimitiveExtensions()


class GltfMesh(_Object, frozen=True):
    """Mesh: its primitives."""

    primitives: list[MeshPrimitive]
    weights: list[Number] = []
    name: str = ""


class GltfSkin(_Object, frozen=True):
    """Skin whose joints are nodes."""

    joints: Annotated[list[Index], Meta(min_length=1, max_length=65536)]
    inverse_bind_matrices: Index | None = None
    name: str = ""


class LightUse(_Object, frozen=True):
    """Reference from a node to its light."""

    light: Index


class NodeExtensions(_Object, frozen=True):
    """Extensions of a node."""

    lights: LightUse | None = msgspec.field(default=None, name="KHR_lights_punctual")


class GltfNode(_Object, frozen=True):
    """A node: a matrix, or translation, rotation (x, y, z, w) and scale."""

    name: str = ""
    children: list[Index] = []
    matrix: Matrix | None = None
    translation: Vector = (0.0, 0.0, 0.0)
    rotation: Quaternion = (0.0, 0.0, 0.0, 1.0)
    scale: Vector = (1.0, 1.0, 1.0)
    mesh: Index | None = None
    weights: list[Number] | None = None
    skin: Index | None = None
    extensions: NodeExtensions = NodeExtensions()


class GltfScene(_Object, frozen=True):
    """Scene: its root nodes."""

    nodes: list[Index] = []


class AnimationTarget(_Object, frozen=True):
    """Node and property that a channel moves."""

    path: str
    node: Index | None = None


class AnimationChannel(_Object, frozen=True):
    """Connection of a sampler to a target."""

    sampler: Index
    target: AnimationTarget


class AnimationSampler(_Object, frozen=True):
    """Key times and values, both accessors."""

    input: Index
    output: Index
    interpolation: Literal["LINEAR", "STEP", "CUBICSPLINE"] = "LINEAR"


class GltfAnimation(_Object, frozen=True):
    """A clip."""

    channels: list[AnimationChannel]
    samplers: list[AnimationSampler]
    name: str = ""


class Spot(_Object, frozen=True):
    """Half angles of a spot's cone, radians."""

    inner_cone_angle: Annotated[float, Meta(ge=0.0, le=1.5708)] = 0.0
    outer_cone_angle: Annotated[float, Meta(ge=0.0, le=1.5708)] = 0.7853981633974483


class Light(_Object, frozen=True):
    """A light of KHR_lights_punctual."""

    type: Literal["directional", "point", "spot"]
    name: str = ""
    color: Colour = (1.0, 1.0, 1.0)
    intensity: Annotated[float, Meta(ge=0.0, le=1e12)] = 1.0
    range: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0
    spot: Spot = Spot()


class Lights(_Object, frozen=True):
    """KHR_lights_punctual of the whole file."""

    lights: list[Light] = []


class Extensions(_Object, frozen=True):
    """Extensions of the whole file."""

    lights: Lights = msgspec.field(default=Lights(), name="KHR_lights_punctual")


class Gltf(_Object, frozen=True):
    """A whole file."""

    asset: AssetInfo
    scene: Index | None = None
    extensions_required: list[str] = []
    extensions: Extensions = Extensions()
    accessors: list[Accessor] = []
    animations: list[GltfAnimation] = []
    buffer_views: list[BufferView] = []
    buffers: list[Buffer] = []
    images: list[Image] = []
    materials: list[GltfMaterial] = []
    meshes: list[GltfMesh] = []
    nodes: list[GltfNode] = []
    samplers: list[Sampler] = []
    scenes: list[GltfScene] = []
    skins: list[GltfSkin] = []
    textures: list[GltfTexture] = []
