"""Materials and textures on the GPU, each uploaded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.model import Material, Texture, first_use
from vil_renderer.embedded.engine.profiles import Profile, Shading

if TYPE_CHECKING:
    import moderngl

MAP_SLOTS: Final = {"base_map": 0, "normal_map": 1, "metal_rough_map": 2, "emissive_map": 3, "occlusion_map": 4}
SHADOW_SLOT: Final = 5
JOINTS_SLOT: Final = 6
LIGHT_SLOT: Final = 7
SURFACE_SLOT: Final = 1
GAMMA: Final = 2.2


class GpuMaterial:
    """Material as a draw call binds it.

    Attributes:
        defines: of the surface shader, sorted.
    """

    def __init__(
        self, material: Material, defines: tuple[str, ...], block: moderngl.Buffer, maps: dict[int, moderngl.Texture]
    ) -> None:
        self.material = material
        self.defines = defines
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
        self._ctx, self._profile = ctx, profile
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
        pbr = self._profile.shading is Shading.PBR
        maps = {MAP_SLOTS["base_map"]: self._texture(m.base.texture if m.base else self._white)}
        defines = []
        if m.alpha == "mask":
            defines.append("ALPHA_MASK")
        if m.alpha == "blend":
            defines.append("BLEND")
        use = first_use(m)
        for name, wrap in zip(("MIRROR_U", "MIRROR_V"), use.texture.wrap if use else (), strict=False):
            if wrap == "mirror":
                defines.append(name)
        if m.unlit:
            defines.append("UNLIT")
        if any(m.emissive_light):
            defines.append("EMISSIVE")
            glow = m.emissive.texture if m.emissive else self._white
            maps[MAP_SLOTS["emissive_map"]] = self._texture(glow)
        if pbr and m.normal is not None:
            defines.append("NORMAL_MAP")
            maps[MAP_SLOTS["normal_map"]] = self._texture(m.normal.texture)
        if pbr and m.occlusion is not None:
            defines.append("OCCLUSION")
            maps[MAP_SLOTS["occlusion_map"]] = self._texture(m.occlusion.texture)
        # A highlight on a matt surface is not worth its cost.
        if pbr and (m.metal_rough is not None or m.metallic > 0.0 or m.roughness < 0.95):
            defines.append("SHINY")
            if m.metal_rough is not None:
                defines.append("METAL_ROUGH")
                maps[MAP_SLOTS["metal_rough_map"]] = self._texture(m.metal_rough.texture)
        return GpuMaterial(m, tuple(sorted(defines)), self._ctx.buffer(self._block(m).tobytes()), maps)

    def _block(self, m: Material) -> npt.NDArray[np.float32]:
        base, emissive = np.array(m.base_colour), np.array(m.emissive_light)
        if not self._linear:
            base[:3] **= 1.0 / GAMMA
            emissive **= 1.0 / GAMMA
        normal_scale = m.normal.strength if m.normal else 1.0
        occlusion = m.occlusion.strength if m.occlusion else 1.0
        gloss = (m.metallic, m.roughness, normal_scale, occlusion)
        return np.array([base, (*emissive, m.alpha_cutoff), gloss], np.float32)

    def _texture(self, texture: Texture) -> moderngl.Texture:
        if id(texture) not in self._textures:
            self._textures[id(texture)] = (texture, self._send(texture))
        return self._textures[id(texture)][1]

    def _send(self, texture: Texture) -> moderngl.Texture:
        ctx, pixels = self._ctx, _limited(texture.pixels, self._profile.texture_limit_px)
        height, width, channels = pixels.shape
        sent = ctx.texture((width, height), channels, np.ascontiguousarray(pixels), alignment=1)
        sent.filter = (ctx.LINEAR_MIPMAP_LINEAR, ctx.LINEAR)
        sent.build_mipmaps()
        # Coordinates of a mirrored picture are folded by the shader, and never leave it.
        sent.repeat_x, sent.repeat_y = (wrap == "repeat" for wrap in texture.wrap)
        if self._profile.anisotropy > 1.0:
            sent.anisotropy = min(self._profile.anisotropy, ctx.max_anisotropy)
        return sent


def _limited(pixels: npt.NDArray[np.uint8], limit_px: int) -> npt.NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    scale = limit_px / max(height, width)
    if scale >= 1.0:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
