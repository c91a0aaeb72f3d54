"""Models of files and recipes, independent of OpenGL.

Meshes, materials, textures, skins, animations.

Node matrices keep the axes of their origin; :attr:`Asset.root` turns them to ours (x forward, y
left, z up, metres). Colours of materials are linear, textures hold what their use says (colour ones
sRGB). The structure is that of glTF 2.0, with references instead of indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray

Float32Array = npt.NDArray[np.float32]
Wrap = Literal["repeat", "clamp", "mirror"]
UvRect = tuple[float, float, float, float]
"""u at the left, v at the top, u at the right, v at the bottom; a greater first value mirrors."""

_IDENTITY_UV: Final = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


@dataclass(frozen=True, slots=True, eq=False)
class Texture:
    """A picture for materials.

    Attributes:
        pixels: uint8 (h, w, 3) or (h, w, 4), top row first; v = 0 is the top row.
        nearest: enlarged pixels keep their edges.
    """

    pixels: npt.NDArray[np.uint8]
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    name: str = ""
    nearest: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TextureUse:
    """A texture as a material applies it.

    Attributes:
        uv_set: which of the primitive's coordinates. transform: (2, 3), applied to (u, v, 1).
        strength: normal scale or occlusion strength.
    """

    texture: Texture
    uv_set: int = 0
    transform: FloatArray = field(default_factory=lambda: _IDENTITY_UV)
    strength: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Coat:
    """Clear varnish over a surface.

    Attributes:
        use: its factor in R. rough_use: its roughness in G. normal: of its own.
    """

    factor: float
    roughness: float = 0.0
    use: TextureUse | None = None
    rough_use: TextureUse | None = None
    normal: TextureUse | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Dielectric:
    """Mirror of a surface that is not metal.

    Attributes:
        f0: share of light that it mirrors face on, linear RGB. weight: factor on the whole mirror.
        use: the factor in A. colour_use: factor on ``f0``, sRGB.
    """

    f0: tuple[float, float, float]
    weight: float = 1.0
    use: TextureUse | None = None
    colour_use: TextureUse | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sheen:
    """Fibres that shine when they are seen from aside.

    Attributes:
        colour: linear RGB. use: factor on it, sRGB. rough_use: factor on the roughness in A.
    """

    colour: tuple[float, float, float]
    roughness: float = 0.0
    use: TextureUse | None = None
    rough_use: TextureUse | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Transmission:
    """Share of light that passes through a thin surface without being scattered.

    Attributes:
        use: factor on it in R. tint: linear RGB factor on the light that passes, besides the base
            colour.
    """

    factor: float
    use: TextureUse | None = None
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """Metallic-roughness material.

    Attributes:
        base_colour: linear RGBA factor. base: sRGB colour and alpha.
        metal_rough: roughness in G, metalness in B (linear). normal: tangent space, OpenGL's y.
        emissive_light: linear RGB factor.
        windows: parts of the texture that daylight comes through, u and v of the top left and
            bottom right corner.
    """

    name: str = ""
    base_colour: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    base: TextureUse | None = None
    metallic: float = 0.0
    roughness: float = 1.0
    metal_rough: TextureUse | None = None
    normal: TextureUse | None = None
    occlusion: TextureUse | None = None
    emissive_light: tuple[float, float, float] = (0.0, 0.0, 0.0)
    emissive: TextureUse | None = None
    alpha: Literal["opaque", "mask", "blend"] = "opaque"
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    unlit: bool = False
    coat: Coat | None = None
    dielectric: Dielectric | None = None
    sheen: Sheen | None = None
    transmission: Transmission | None = None
    windows: tuple[UvRect, ...] = ()


MAPS: Final = (
    "base", "normal", "metal_rough", "emissive", "occlusion", "coat", "coat_rough", "coat_normal",
    "specular",
    "specular_colour", "sheen", "sheen_rough", "transmission",
)  # fmt: skip
"""Names of all maps of a material, in the order of the shaders."""


def uses_of(material: Material) -> dict[str, TextureUse]:
    """Return the maps that a material has, by their names in :data:`MAPS`, in that order."""
    found = {name: getattr(material, name) for name in MAPS[:5]}
    if (coat := material.coat) is not None:
        found |= {"coat": coat.use, "coat_rough": coat.rough_use, "coat_normal": coat.normal}
    if (dielectric := material.dielectric) is not None:
        found |= {"specular": dielectric.use, "specular_colour": dielectric.colour_use}
    if (sheen := material.sheen) is not None:
        found |= {"sheen": sheen.use, "sheen_rough": sheen.rough_use}
    if material.transmission is not None:
        found["transmission"] = material.transmission.use
    return {name: use for name, use in found.items() if use is not None}


def has_own_coordinates(material: Material) -> bool:
    """Return whether its maps differ in their coordinates, transforms or mirrored copies."""
    found = set()
    for use in uses_of(material).values():
        wrap_u, wrap_v = use.texture.wrap
        transform = (use.transform + 0.0).tobytes()
        found.add((use.uv_set, transform, wrap_u == "mirror", wrap_v == "mirror"))
    return len(found) > 1


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """Triangles of one material, in the axes of their node.

    Attributes:
        p_m: float32 (n, 3). normal: float32 (n, 3), unit length. uv: float32 (n, 2). uv1: the
            second set or None.
        tangent: float32 (n, 4), w = handedness, or None. colour: uint8 (n, 4), linear, or None.
        joints: uint16 (n, 4) into the skin's joints, weights: float32 (n, 4), or None.
        targets: float32 (n, t, 2, 3), offsets of place and normal for each morph target that an
            animation moves, or None; ``p_m`` and ``normal`` hold the weights at rest.
        triangles: uint32 (m, 3), counter-clockwise seen from outside, once the node stands at rest
            in the asset.
    """

    p_m: Float32Array
    normal: Float32Array
    uv: Float32Array
    triangles: npt.NDArray[np.uint32]
    material: Material
    uv1: Float32Array | None = None
    tangent: Float32Array | None = None
    colour: npt.NDArray[np.uint8] | None = None
    joints: npt.NDArray[np.uint16] | None = None
    weights: Float32Array | None = None
    targets: Float32Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Skin:
    """Joints (node indices, length k) and their inverse bind matrices (k, 4, 4)."""

    joints: tuple[int, ...]
    inverse_bind: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PunctualLight:
    """KHR_lights_punctual: candela for point and spot, lux for directional.

    Shines along the node's -z.

    Attributes:
        colour: linear RGB. range_m: 0 = unlimited. cone_rad: inner and outer half angle of a spot.
    """

    kind: Literal["directional", "point", "spot"]
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)
    intensity: float = 1.0
    range_m: float = 0.0
    cone_rad: tuple[float, float] = (0.0, 0.7854)
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the hierarchy; ``parent`` -1 = a root, parents stand before their children.

    Attributes:
        p: translation (3,). q_xyzw: (4,). scale: (3,). Relative to the parent, at rest.
        weights: (t,), of the morph targets at rest.
    """

    name: str
    parent: int = -1
    p: FloatArray = field(default_factory=lambda: np.zeros(3))
    q_xyzw: FloatArray = field(default_factory=lambda: np.array([0.0, 0.0, 0.0, 1.0]))
    scale: FloatArray = field(default_factory=lambda: np.ones(3))
    primitives: tuple[Primitive, ...] = ()
    skin: Skin | None = None
    light: PunctualLight | None = None
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One animated property of one node.

    Attributes:
        times_s: (k,). values: (k, c), c = 3, 4 or the number of morph targets; for cubic splines
            (k, 3, c): in-tangent, value, out-tangent.
    """

    node: int
    path: Literal["translation", "rotation", "scale", "weights"]
    interpolation: Literal["linear", "step", "cubic"]
    times_s: FloatArray
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Animation:
    """A named clip."""

    name: str
    channels: tuple[Channel, ...]

    @property
    def duration_s(self) -> float:
        """Time of its last key."""
        return max((float(c.times_s[-1]) for c in self.channels), default=0.0)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Asset:
    """A model: nodes with their meshes, skins and lights.

    Attributes:
        nodes: parents first. root: (4, 4), our axes from the file's.
        origin: the file or recipe, for messages.
    """

    name: str
    nodes: tuple[Node, ...]
    root: FloatArray = field(default_factory=lambda: np.eye(4))
    animations: Mapping[str, Animation] = field(default_factory=dict)
    origin: str = ""

    def asset_from_node(self, local: FloatArray | None = None) -> FloatArray:
        """Return matrices (n, 4, 4) from each node's axes to the asset's, at rest or from local
        ones (n, 4, 4).
        """
        made = self.rest_local() if local is None else local.copy()
        for i, node in enumerate(self.nodes):
            made[i] = (self.root if node.parent < 0 else made[node.parent]) @ made[i]
        return made

    def rest_local(self) -> FloatArray:
        """Return matrices (n, 4, 4) of each node relative to its parent, at rest."""
        return np.array([trs_matrix(n.p, n.q_xyzw, n.scale) for n in self.nodes]).reshape(-1, 4, 4)

    def node_named(self, name: str) -> int:
        """Return the index of a node, -1 if none has that name."""
        return next((i for i, node in enumerate(self.nodes) if node.name == name), -1)

    @staticmethod
    def of(name: str, primitives: Sequence[Primitive], origin: str = "") -> Asset:
        """Return a rigid asset of one node in our axes."""
        return Asset(name, (Node(name, primitives=tuple(primitives)),), origin=origin)


def trs_matrix(p: FloatArray, q_xyzw: FloatArray, scale: FloatArray) -> FloatArray:
    """Return translation x rotation x scale as a matrix (4, 4)."""
    x, y, z, w = q_xyzw
    m = np.eye(4)
    m[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    m[:3, :3] *= scale
    m[:3, 3] = p
    return m
