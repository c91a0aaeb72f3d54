"""Compiled shaders by their options; each is built when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from vil_renderer.embedded.engine.materials import (
    COVER_SLOT,
    JOINTS_SLOT,
    LIGHT_SLOT,
    MAP_SLOTS,
    MODEL_LIGHT_SLOT,
    MORPH_SLOT,
    SHADOW_SLOT,
    SURFACE_SLOT,
)
from vil_renderer.embedded.engine.particles import CUBES_M
from vil_renderer.embedded.engine.shader_fragment import DEPTH_FRAGMENT, SURFACE_FRAGMENT
from vil_renderer.embedded.engine.shader_frame import shader
from vil_renderer.embedded.engine.shader_sky import (
    BLOB_FRAGMENT,
    BLOB_VERTEX,
    SHADE_FRAGMENT,
    SHADE_VERTEX,
    SKY_FRAGMENT,
    SKY_VERTEX,
    SUN_FRAGMENT,
    SUN_VERTEX,
)
from vil_renderer.embedded.engine.shader_vertex import SURFACE_VERTEX
from vil_renderer.embedded.engine.shader_weather import PARTICLE_FRAGMENT, PARTICLE_VERTEX
from vil_renderer.embedded.engine.targets import PassOutput, defines_of

if TYPE_CHECKING:
    import moderngl

FRAME: Final = 0
_BLOCKS: Final = {"Frame": FRAME, "Surface": SURFACE_SLOT}
_SLOTS: Final = {
    "shadow_map": SHADOW_SLOT, "joint_map": JOINTS_SLOT, "morph_map": MORPH_SLOT,
    "light_map": LIGHT_SLOT,
    "cover_map": COVER_SLOT, "model_light": MODEL_LIGHT_SLOT,
}  # fmt: skip
_MASKING: Final = {"ALPHA_MASK", "MIRROR_U", "MIRROR_V", "OWN_UV", "VERTEX_ALPHA", "FINISHED"}
_CODES: Final = {
    "3f4": ("3f", 12),
    "2f4": ("2f", 8),
    "4f4": ("4f", 16),
    "4u1": ("4f1", 4),
    "4u2": ("4u2", 8),
    "u4": ("1u", 4),
}
_ATTRIBUTES: Final = {
    "p": "in_p", "normal": "in_normal", "uv": "in_uv", "light": "in_light", "colour": "in_colour",
    "ids": "in_ids",
    "joints": "in_joints", "weights": "in_weights",
}  # fmt: skip


class PassOptions(NamedTuple):
    """Options of a pass that the shaders are compiled with.

    Attributes:
        outputs: bits of :class:`~.targets.PassOutput`; 0 = nothing but depth.
        air: it takes light, and has its own. ground: defines of what lies on it. wind: trees move.
        roofs: they stop what lies on the ground. falls: rain or snow does, and roofs stop it.
        probed: each model has its own ambient light.
        toned: colours have the tone curve.
    """

    shading: int
    outputs: int
    shadow: bool = False
    lamps: bool = False
    air: bool = False
    ground: tuple[str, ...] = ()
    wind: bool = False
    roofs: bool = False
    falls: bool = False
    probed: bool = False
    toned: bool = False

    @property
    def flow(self) -> bool:
        """Motion is drawn."""
        return bool(self.outputs & PassOutput.FLOW)

    def defines(self) -> dict[str, object]:
        """Return the shaders' defines."""
        given = {
            "SHADOW": self.shadow,
            "LAMPS": self.lamps,
            "AIR": self.air,
            "WIND": self.wind,
            "ROOFS": self.roofs,
            "FALLS": self.falls,
            "PROBED": self.probed,
            "TONED": self.toned,
        }
        there = {name: 1 for name, wanted in given.items() if wanted}
        if self.ground:
            there |= dict.fromkeys(("GROUND", *self.ground), 1)
        return {"SHADING": self.shading, **there, **defines_of(PassOutput(self.outputs))}


class Programs:
    """Programs by their options."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self._ctx = ctx
        self._built: dict[tuple[str, tuple[tuple[str, object], ...]], moderngl.Program] = {}
        self._surfaces: dict[tuple[PassOptions, str, tuple[str, ...]], moderngl.Program] = {}

    def of(
        self, options: PassOptions, vertices: str, material: tuple[str, ...]
    ) -> moderngl.Program:
        """Return the surface shader with these options.

        Args:
            options: outputs and light of the pass.
            vertices: ``STATIC``, ``INSTANCED`` or ``SKINNED``.
            material: its defines, as names or NAME=VALUE.
        """
        key = (options, vertices, material)
        if key not in self._surfaces:
            self._surfaces[key] = self._surface(*key)
        return self._surfaces[key]

    def _surface(
        self, options: PassOptions, vertices: str, material: tuple[str, ...]
    ) -> moderngl.Program:
        entries = [entry.partition("=") for entry in material]
        given: dict[str, object] = {name: value or 1 for name, _, value in entries}
        if not options.outputs:
            needed = {"MORPH"}
            if "ALPHA_MASK" in given:
                needed |= _MASKING
            given = {name: value for name, value in given.items() if name in needed}
            return self._get(
                "depth", SURFACE_VERTEX, DEPTH_FRAGMENT, {"SHADING": 0, vertices: 1, **given}
            )
        moves = vertices != "STATIC"
        # Only what stands still is covered, or a tree; all the rest has a place of its own.
        if moves:
            options = options._replace(ground=(), wind=False)
        else:
            options = options._replace(probed=False)
        defines = {**options.defines(), vertices: 1, **given}
        return self._get("surface", SURFACE_VERTEX, SURFACE_FRAGMENT, defines)

    def sky(self, options: PassOptions, *, nothing: bool) -> moderngl.Program:
        """Return the program of the background.

        ``nothing`` = there is none behind a single layer.
        """
        defines = options.defines()
        if nothing:
            defines["NOTHING"] = 1
        return self._get("sky", SKY_VERTEX, SKY_FRAGMENT, defines)

    def blob(self) -> moderngl.Program:
        """Return the program of the soft dark discs below actors."""
        return self._get("blob", BLOB_VERTEX, BLOB_FRAGMENT, {"SHADING": 0})

    def splat_shade(self, high_m: float) -> moderngl.Program:
        """Return the program of the same discs on the surface of splats that lies as near to
        their level as this.
        """
        return self._get(
            "shade", SHADE_VERTEX, SHADE_FRAGMENT, {"SHADING": 0, "SHADE_HIGH_M": high_m}
        )

    def splat_sun(self) -> moderngl.Program:
        """Return the program of the sun's shadows on splats."""
        return self._get("sun", SUN_VERTEX, SUN_FRAGMENT, {"SHADING": 0})

    def particles(self, shading: int, *, toned: bool) -> moderngl.Program:
        """Return the program of what falls."""
        defines: dict[str, object] = {
            "SHADING": shading,
            "CUBES_M": ", ".join(map(str, CUBES_M)),
        }
        if toned:
            defines["TONED"] = 1
        return self._get("particles", PARTICLE_VERTEX, PARTICLE_FRAGMENT, defines)

    def _get(
        self, kind: str, vertex: str, fragment: str, defines: dict[str, object]
    ) -> moderngl.Program:
        key = (kind, tuple(sorted(defines.items())))
        found = self._built.get(key)
        if found is None:
            found = self._ctx.program(
                vertex_shader=shader(vertex, defines), fragment_shader=shader(fragment, defines)
            )
            _bind_slots(found)
            self._built[key] = found
        return found


def _bind_slots(program: moderngl.Program) -> None:
    for name, slot in _BLOCKS.items():
        if name in program:
            cast("Any", program[name]).binding = slot
    for name, slot in (*MAP_SLOTS.items(), *_SLOTS.items()):
        if name in program:
            cast("Any", program[name]).value = slot


def vertex_format(program: moderngl.Program, dtype: np.dtype[np.void]) -> tuple[str, list[str]]:
    """Return format and attribute names of interleaved vertices.

    Those that a program does not read are skipped.
    """
    codes = []
    names = []
    for field, (kind, _offset, *_title) in cast("Any", dtype.fields).items():
        code, size = _CODES[f"{kind.shape[0] if kind.shape else ''}{kind.base.str[1:]}"]
        name = _ATTRIBUTES[field]
        if name in program:
            codes.append(code)
            names.append(name)
        else:
            codes.append(f"{size}x")
    return " ".join(codes), names


def second_coordinates(
    program: moderngl.Program, buffer: moderngl.Buffer | None
) -> list[tuple[Any, ...]]:
    """Return the entry of a vertex array for second texture coordinates.

    None if the program does not read them.
    """
    return [(buffer, "2f", "in_uv1")] if "in_uv1" in program else []
