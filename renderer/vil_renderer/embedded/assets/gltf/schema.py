"""The JSON of glTF 2.0 as types.

Msgspec checks them, and its errors name the element and what was found.

Only what we read. Source: the glTF 2.0 specification and the extensions named in the types.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vil_renderer.embedded.assets.gltf.schema_basics import (
    Colour,
    ComponentType,
    GltfObject,
    Index,
    Matrix,
    Number,
    Quaternion,
    Size,
    Vector,
)
from vil_renderer.embedded.assets.gltf.schema_materials import GltfMaterial


class AssetInfo(GltfObject, frozen=True):
    """Version of glTF."""

    version: str
    min_version: str | None = None


class Buffer(GltfObject, frozen=True):
    """Bytes in the GLB (no ``uri``), in the JSON or in a file next to it."""

    byte_length: Size
    uri: str | None = None


class Meshopt(GltfObject, frozen=True):
    """EXT_meshopt_compression of a buffer view.

    ``count`` elements of ``byte_stride`` bytes, packed elsewhere.
    """

    buffer: Index
    byte_length: Size
    byte_stride: Annotated[int, Meta(ge=1, le=256)]
    count: Annotated[int, Meta(ge=1, le=2**53)]
    mode: Literal["ATTRIBUTES", "TRIANGLES", "INDICES"]
    byte_offset: Size = 0
    filter: Literal["NONE", "OCTAHEDRAL", "QUATERNION", "EXPONENTIAL"] = "NONE"


class ViewExtensions(GltfObject, frozen=True):
    """Extensions of a buffer view."""

    meshopt: Meshopt | None = msgspec.field(default=None, name="EXT_meshopt_compression")


class BufferView(GltfObject, frozen=True):
    """A part of a buffer."""

    buffer: Index
    byte_length: Size
    byte_offset: Size = 0
    byte_stride: Annotated[int, Meta(ge=4, le=252)] | None = None
    extensions: ViewExtensions = ViewExtensions()


class SparseIndices(GltfObject, frozen=True):
    """Indices of the elements that differ."""

    buffer_view: Index
    component_type: Literal[5121, 5123, 5125]
    byte_offset: Size = 0


class SparseValues(GltfObject, frozen=True):
    """The elements that differ."""

    buffer_view: Index
    byte_offset: Size = 0


class Sparse(GltfObject, frozen=True):
    """Elements that differ from the accessor's own."""

    count: Size
    indices: SparseIndices
    values: SparseValues


class Accessor(GltfObject, frozen=True):
    """Elements of one type in a buffer view; all zero without one."""

    component_type: ComponentType
    count: Annotated[int, Meta(ge=1, le=2**53)]
    type: Literal["SCALAR", "VEC2", "VEC3", "VEC4", "MAT2", "MAT3", "MAT4"]
    buffer_view: Index | None = None
    byte_offset: Size = 0
    normalized: bool = False
    sparse: Sparse | None = None


class Image(GltfObject, frozen=True):
    """A PNG or JPEG."""

    uri: str | None = None
    buffer_view: Index | None = None
    name: str = ""


class Sampler(GltfObject, frozen=True):
    """Continuation of a texture beyond its edges.

    Of the filters only 9728, the nearest pixel, when enlarged.
    """

    mag_filter: int | None = None
    wrap_s: Literal[10497, 33071, 33648] = 10497
    wrap_t: Literal[10497, 33071, 33648] = 10497


class OtherSource(GltfObject, frozen=True):
    """Image of another format."""

    source: Index | None = None


class TextureSources(GltfObject, frozen=True):
    """Images of other formats, which are taken before the texture's own."""

    webp: OtherSource = msgspec.field(default=OtherSource(), name="EXT_texture_webp")
    avif: OtherSource = msgspec.field(default=OtherSource(), name="EXT_texture_avif")


class GltfTexture(GltfObject, frozen=True):
    """An image with a sampler."""

    source: Index | None = None
    sampler: Index | None = None
    extensions: TextureSources = TextureSources()


class Draco(GltfObject, frozen=True):
    """KHR_draco_mesh_compression: numbers of the attributes in the compressed data, by name."""

    buffer_view: Index
    attributes: dict[str, Index]


class GaussianSplatting(GltfObject, frozen=True):
    """KHR_gaussian_splatting, with the extensions that compress its attributes."""

    kernel: str
    color_space: str
    extensions: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class PrimitiveExtensions(GltfObject, frozen=True):
    """Extensions of a primitive."""

    draco: Draco | None = msgspec.field(default=None, name="KHR_draco_mesh_compression")
    splats: GaussianSplatting | None = msgspec.field(default=None, name="KHR_gaussian_splatting")


class MeshPrimitive(GltfObject, frozen=True):
    """Primitive: its attributes by name, each an accessor."""

    attributes: dict[str, Index]
    indices: Index | None = None
    material: Index | None = None
    mode: Annotated[int, Meta(ge=0, le=6)] = 4
    targets: tuple[dict[str, Index], ...] = ()
    extensions: PrimitiveExtensions = PrimitiveExtensions()


class GltfMesh(GltfObject, frozen=True):
    """Mesh: its primitives."""

    primitives: list[MeshPrimitive]
    weights: tuple[Number, ...] = ()
    name: str = ""


class GltfSkin(GltfObject, frozen=True):
    """Skin whose joints are nodes."""

    joints: Annotated[list[Index], Meta(min_length=1, max_length=65536)]
    inverse_bind_matrices: Index | None = None
    name: str = ""


class LightUse(GltfObject, frozen=True):
    """Reference from a node to its light."""

    light: Index


class Instancing(GltfObject, frozen=True):
    """EXT_mesh_gpu_instancing: accessors of TRANSLATION, ROTATION and SCALE, an element to each
    instance.
    """

    attributes: dict[str, Index]


class Visibility(GltfObject, frozen=True):
    """KHR_node_visibility, of a node and all below it."""

    visible: bool = True


class NodeExtensions(GltfObject, frozen=True):
    """Extensions of a node."""

    lights: LightUse | None = msgspec.field(default=None, name="KHR_lights_punctual")
    instancing: Instancing | None = msgspec.field(default=None, name="EXT_mesh_gpu_instancing")
    visibility: Visibility = msgspec.field(default=Visibility(), name="KHR_node_visibility")


class GltfNode(GltfObject, frozen=True):
    """A node: a matrix, or translation, rotation (x, y, z, w) and scale."""

    name: str = ""
    children: tuple[Index, ...] = ()
    matrix: Matrix | None = None
    translation: Vector = (0.0, 0.0, 0.0)
    rotation: Quaternion = (0.0, 0.0, 0.0, 1.0)
    scale: Vector = (1.0, 1.0, 1.0)
    mesh: Index | None = None
    weights: list[Number] | None = None
    skin: Index | None = None
    extensions: NodeExtensions = NodeExtensions()


class GltfScene(GltfObject, frozen=True):
    """Scene: its root nodes."""

    nodes: tuple[Index, ...] = ()


class AnimationTarget(GltfObject, frozen=True):
    """Node and property that a channel moves."""

    path: str
    node: Index | None = None


class AnimationChannel(GltfObject, frozen=True):
    """Connection of a sampler to a target."""

    sampler: Index
    target: AnimationTarget


class AnimationSampler(GltfObject, frozen=True):
    """Key times and values, both accessors."""

    input: Index
    output: Index
    interpolation: Literal["LINEAR", "STEP", "CUBICSPLINE"] = "LINEAR"


class GltfAnimation(GltfObject, frozen=True):
    """A clip."""

    channels: list[AnimationChannel]
    samplers: list[AnimationSampler]
    name: str = ""


class Spot(GltfObject, frozen=True):
    """Half angles of a spot's cone, radians."""

    inner_cone_angle: Annotated[float, Meta(ge=0.0, le=1.5708)] = 0.0
    outer_cone_angle: Annotated[float, Meta(ge=0.0, le=1.5708)] = 0.7853981633974483


class Light(GltfObject, frozen=True):
    """A light of KHR_lights_punctual."""

    type: Literal["directional", "point", "spot"]
    name: str = ""
    color: Colour = (1.0, 1.0, 1.0)
    intensity: Annotated[float, Meta(ge=0.0, le=1e12)] = 1.0
    range: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0
    spot: Spot = Spot()


class Lights(GltfObject, frozen=True):
    """KHR_lights_punctual of the whole file."""

    lights: tuple[Light, ...] = ()


class Extensions(GltfObject, frozen=True):
    """Extensions of the whole file."""

    lights: Lights = msgspec.field(default=Lights(), name="KHR_lights_punctual")


class Gltf(GltfObject, frozen=True):
    """A whole file."""

    asset: AssetInfo
    scene: Index | None = None
    extensions_required: tuple[str, ...] = ()
    extensions_used: tuple[str, ...] = ()
    extensions: Extensions = Extensions()
    accessors: tuple[Accessor, ...] = ()
    animations: tuple[GltfAnimation, ...] = ()
    buffer_views: tuple[BufferView, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    images: tuple[Image, ...] = ()
    materials: tuple[GltfMaterial, ...] = ()
    meshes: tuple[GltfMesh, ...] = ()
    nodes: tuple[GltfNode, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    scenes: tuple[GltfScene, ...] = ()
    skins: tuple[GltfSkin, ...] = ()
    textures: tuple[GltfTexture, ...] = ()
