"""Surfaces that let light through: one list of static and moving parts, the far ones first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vil_renderer.embedded.engine.programs import PassOptions

if TYPE_CHECKING:
    import moderngl


PartDraw = Callable[[PassOptions, tuple[str, ...]], None]
"""Function that draws a part with the options of a pass and further defines of its shader."""


@dataclass(frozen=True, slots=True, eq=False)
class TranslucentPart:
    """A part of a view.

    Attributes:
        depth_m: z-depth of its middle. transmits: filters what is behind, then adds its own light.
    """

    depth_m: float
    transmits: bool
    draw: PartDraw


def draw_translucent(
    ctx: moderngl.Context, parts: Iterable[TranslucentPart], options: PassOptions
) -> None:
    """Draw parts over a picture, the far ones first.

    Alpha adds up as it does in a premultiplied picture.
    """
    painted = (ctx.SRC_ALPHA, ctx.ONE_MINUS_SRC_ALPHA, ctx.ONE, ctx.ONE_MINUS_SRC_ALPHA)
    filtered = (ctx.ZERO, ctx.SRC_COLOR, ctx.ONE, ctx.ONE_MINUS_SRC_ALPHA)
    # The picture holds display values, whose sum would be too bright: 1 - (1 - a) (1 - b) is near
    # the sum of light.
    added = (ctx.ONE, ctx.ONE_MINUS_SRC_COLOR, ctx.ZERO, ctx.ONE)
    target = cast("Any", ctx)
    for part in sorted(parts, key=lambda part: -part.depth_m):
        if not part.transmits:
            target.blend_func = painted
            part.draw(options, ())
            continue
        target.blend_func = filtered
        part.draw(options, ("FILTER",))
        target.blend_func = added
        part.draw(options, ())
    target.blend_func = painted
