"""Materials and textures on the GPU, each uploaded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.model import (
    MAPS,
    Material,
    Texture,
    TextureUse,
    has_own_coordinates,
    uses_of,
)
from vil_renderer.embedded.engine.profiles import Profile, Shading

if TYPE_CHECKING:
    import moderngl

SHADOW_SLOT: Final = 13
JOINTS_SLOT: Final = 14
MORPH_SLOT: Final = 15
LIGHT_SLOT: Final = 15
"""The last of the texture units that every OpenGL 3.3 has.

No program reads morph targets and baked light.
"""
COVER_SLOT: Final = 16
MODEL_LIGHT_SLOT: Final = 17
"""Units are counted over all stages: no stage reads more than 16 maps."""
MAP_SLOTS: Final = {f"{name}_map": slot for slot, name in enumerate(MAPS)}
SURFACE_SLOT: Final = 1
GAMMA: Final = 2.2
_PLAIN_MAPS: Final = ("base", "emissive", "transmission")
_FINISHES: Final = {"COAT", "SPECULAR", "SHEEN", "TRANSMISSION"}


class GpuMaterial:
    """Material as a draw call binds it.

    Attributes:
        defines: of the surface shader, sorted. transmits, translucent: whether it filters the light
            from behind, and whether anything behind it shows.
    """

    def __init__(
        self,
        material: Material,
        defines: tuple[str, ...],
        block: moderngl.Buffer,
        maps: dict[int, moderngl.Texture],
    ) -> None:
        self.material = material
        self.defines = defines
        self.transmits = "TRANSMISSION" in defines
        self.translucent = self.transmits or "BLEND" in defines
        self._block = block
        self._maps = tuple(maps.items())

    def bind(self) -> None:
        """Make it current."""
        self._block.bind_to_uniform_block(SURFACE_SLOT)
        for unit, texture in self._maps:
            texture.use(unit)


class MaterialCache:
    """GPU copies of the materials, as far as a profile needs them, each uploaded once."""

    def __init__(self, ctx: moderngl.Context, profile: Profile) -> None:
        self._ctx = ctx
        self._profile = profile
        self._linear = profile.shading is not Shading.VERTEX
        self._materials: dict[int, GpuMaterial] = {}
        self._textures: dict[int, tuple[Texture, moderngl.Texture]] = {}
        self._white = Texture(np.full((1, 1, 3), 255, np.uint8))

    def get(self, material: Material) -> GpuMaterial:
        """Return the material on the GPU."""
        found = self._materials.get(id(material))
        if found is None:
            found = self._materials[id(material)] = self._upload(material)
        return found

    def _upload(self, m: Material) -> GpuMaterial:
        defines = _plain_defines(m)
        maps = {name: use for name, use in uses_of(m).items() if name in _PLAIN_MAPS}
        if self._profile.shading is Shading.PBR and not m.unlit:
            maps = uses_of(m)
            defines |= _fine_defines(m)
        if defines & _FINISHES:
            defines.add("FINISHED")
        if "EMISSIVE" not in defines:
            maps.pop("emissive", None)
        textures = {
            MAP_SLOTS[f"{name}_map"]: self._texture(use.texture) for name, use in maps.items()
        }
        textures.setdefault(MAP_SLOTS["base_map"], self._texture(self._white))
        if "EMISSIVE" in defines:
            textures.setdefault(MAP_SLOTS["emissive_map"], self._texture(self._white))
        ordered = tuple(sorted(defines))
        return GpuMaterial(
            m, ordered, self._ctx.buffer(self._block(m, defines).tobytes()), textures
        )

    def _block(self, m: Material, defines: set[str]) -> npt.NDArray[np.float32]:
        """Return the uniforms of a material, (n, 4), as far as its shader declares them."""
        base = np.array(m.base_colour)
        emissive = np.array(m.emissive_light)
        if not self._linear:
            base[:3] **= 1.0 / GAMMA
            emissive **= 1.0 / GAMMA
        normal_scale = m.normal.strength if m.normal else 1.0
        occlusion = m.occlusion.strength if m.occlusion else 1.0
        gloss = (m.metallic, m.roughness, normal_scale, occlusion)
        rows = [base, (*emissive, m.alpha_cutoff), gloss]
        if "FINISHED" in defines:
            rows += _finish(m)
        if "OWN_UV" in defines:
            rows += _coordinates(uses_of(m))
        return np.array(rows, np.float32)

    def _texture(self, texture: Texture) -> moderngl.Texture:
        if id(texture) not in self._textures:
            self._textures[id(texture)] = (texture, self._send(texture))
        return self._textures[id(texture)][1]

    def _send(self, texture: Texture) -> moderngl.Texture:
        ctx = self._ctx
        pixels = _limited(texture.pixels, self._profile.texture_limit_px)
        height, width, channels = pixels.shape
        sent = ctx.texture((width, height), channels, np.ascontiguousarray(pixels), alignment=1)
        sent.build_mipmaps()  # sets filters of its own
        sent.filter = (ctx.LINEAR_MIPMAP_LINEAR, ctx.NEAREST if texture.nearest else ctx.LINEAR)
        # Coordinates of a mirrored picture are folded by the shader, and never leave it.
        sent.repeat_x, sent.repeat_y = (wrap == "repeat" for wrap in texture.wrap)
        if self._profile.anisotropy > 1.0:
            sent.anisotropy = min(self._profile.anisotropy, ctx.max_anisotropy)
        return sent


def _plain_defines(m: Material) -> set[str]:
    """Return what the shaders of all profiles need to know of a material."""
    defines: set[str] = set()
    if m.alpha == "mask":
        defines.add("ALPHA_MASK")
    elif m.alpha == "blend":
        defines.add("BLEND")
    if m.unlit:
        defines.add("UNLIT")
    elif any(m.emissive_light):
        defines.add("EMISSIVE")
    if m.transmission is not None and not m.unlit:
        defines.add("TRANSMISSION")
        if m.transmission.use is not None:
            defines.add("TRANSMISSION_MAP")
    uses = list(uses_of(m).values())
    if has_own_coordinates(m):
        defines.add("OWN_UV")
    elif uses:
        wraps = zip(("MIRROR_U", "MIRROR_V"), uses[0].texture.wrap, strict=True)
        defines.update(name for name, wrap in wraps if wrap == "mirror")
    return defines


def _fine_defines(m: Material) -> set[str]:
    """Return what the shaders need to know of a material besides, where maps and mirrors are
    drawn.
    """
    uses = uses_of(m)
    named = {"normal": "NORMAL_MAP", "occlusion": "OCCLUSION", "metal_rough": "METAL_ROUGH"}
    defines = {define for name, define in named.items() if name in uses}
    # A highlight on a matt surface is not worth its cost.
    if m.metal_rough is not None or m.metallic > 0.0 or m.roughness < 0.95:
        defines.add("SHINY")
    finishes = {"COAT": m.coat, "SPECULAR": m.dielectric, "SHEEN": m.sheen}
    there = {name for name, finish in finishes.items() if finish is not None}
    if there or m.transmission is not None:
        defines |= {"SHINY", *there, *(f"{name}_MAP".upper() for name in uses if name in MAPS[5:])}
    return defines


def _finish(m: Material) -> list[tuple[float, ...]]:
    """Return the rows of coat, mirror, sheen and transmission."""
    coat: tuple[float, ...] = (0.0,) * 4
    if m.coat:
        normal_scale = 1.0
        if m.coat.normal:
            normal_scale = m.coat.normal.strength
        coat = (m.coat.factor, m.coat.roughness, normal_scale, 0.0)
    mirror: tuple[float, ...] = (0.04, 0.04, 0.04, 1.0)
    if m.dielectric:
        mirror = (*m.dielectric.f0, m.dielectric.weight)
    sheen: tuple[float, ...] = (0.0,) * 4
    if m.sheen:
        sheen = (*m.sheen.colour, m.sheen.roughness)
    through: tuple[float, ...] = (1.0, 1.0, 1.0, 0.0)
    if m.transmission:
        through = (*m.transmission.tint, m.transmission.factor)
    return [coat, mirror, sheen, through]


def _coordinates(uses: dict[str, TextureUse]) -> list[tuple[float, ...]]:
    """Return, for all maps, the rows of u, then those of v: factors on u and v, offset.

    W: set, mirrored copies.
    """
    rows_u: list[tuple[float, ...]] = []
    rows_v: list[tuple[float, ...]] = []
    for name in MAPS:
        use = uses.get(name)
        if use is None:
            rows_u.append((1.0, 0.0, 0.0, 0.0))
            rows_v.append((0.0, 1.0, 0.0, 0.0))
            continue
        u, v = use.transform.tolist()
        mirrored = [wrap == "mirror" for wrap in use.texture.wrap]
        rows_u.append((*u, float(use.uv_set)))
        rows_v.append((*v, float(mirrored[0] + 2 * mirrored[1])))
    return rows_u + rows_v


def _limited(pixels: npt.NDArray[np.uint8], limit_px: int) -> npt.NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    scale = limit_px / max(height, width)
    if scale >= 1.0:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
