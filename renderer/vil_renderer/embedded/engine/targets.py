"""Outputs of a pass.

Colour, z-depth, normals, ids and flow in one framebuffer, and their pixels.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final, cast

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_renderer.embedded.engine.readback import Attachment, Pixels, Readback
from vil_renderer.embedded.lru_cache import LruByteCache

if TYPE_CHECKING:
    import moderngl

_TARGET_BYTES: Final = 256 << 20
_SMALLEST_BYTES: Final = 1 << 16


class PassOutput(IntFlag):
    """Outputs of a pass."""

    COLOUR = 1
    Z = 2
    NORMAL = 4
    IDS = 8
    FLOW = 16


OUTPUTS: Final = (
    PassOutput.COLOUR,
    PassOutput.Z,
    PassOutput.NORMAL,
    PassOutput.IDS,
    PassOutput.FLOW,
)
_FORMATS: Final = {
    PassOutput.COLOUR: (4, "f1"),
    PassOutput.Z: (1, "f4"),
    PassOutput.NORMAL: (2, "u4"),
    PassOutput.IDS: (1, "u4"),
    PassOutput.FLOW: (2, "f4"),
}


def defines_of(outputs: PassOutput) -> dict[str, object]:
    """Return the shaders' defines: each output's location."""
    return {f"OUT_{output.name}": i for i, output in enumerate(_ordered(outputs))}


def places_of(
    target: moderngl.Framebuffer, outputs: PassOutput
) -> dict[PassOutput, tuple[moderngl.Framebuffer, int]]:
    """Return where a framebuffer of :class:`TargetCache` holds its outputs."""
    return {output: (target, i) for i, output in enumerate(_ordered(outputs))}


def _ordered(outputs: PassOutput) -> list[PassOutput]:
    """Return single outputs in the order of their attachments."""
    return [output for output in OUTPUTS if output in outputs]


def write_first(target: moderngl.Framebuffer, count: int, first: int) -> None:
    """Write the first of a framebuffer's attachments alone."""
    masks = tuple((i < first,) * 4 for i in range(count))
    cast("Any", target).color_mask = masks if count > 1 else masks[0]


class RenderedView:
    """Images of one view, top row first; valid until the next views are drawn.

    Args:
        places: of each output, the framebuffer that holds it and its attachment there.
        readback: of the framebuffers' context.
        alpha: colour is read with its alpha.

    Attributes:
        outputs: all of them.
    """

    def __init__(
        self,
        size_px: tuple[int, int],
        places: Mapping[PassOutput, tuple[moderngl.Framebuffer, int]],
        readback: Readback,
        *,
        alpha: bool = False,
    ) -> None:
        # Without OpenGL's help OpenCV drops the fourth byte: on llvmpipe that is four times faster.
        drops_alpha = readback.early and not alpha
        self.outputs = functools.reduce(operator.or_, places, PassOutput(0))
        self._pixels: dict[PassOutput, Pixels] = {}
        for output, (target, index) in places.items():
            components, kind = _FORMATS[output]
            if output is PassOutput.COLOUR and drops_alpha:
                components = 3
            shape = (*size_px[::-1], components)[: 2 if components == 1 else 3]
            retained = output is PassOutput.FLOW or (output is PassOutput.COLOUR and alpha)
            self._pixels[output] = readback.start(Attachment(target, index, shape, kind, retained))

    def rgba(self) -> npt.NDArray[np.uint8]:
        """Return display values, shape (h, w, 4)."""
        return self._pixels[PassOutput.COLOUR]()

    def rgb(self) -> npt.NDArray[np.uint8]:
        """Return display values, shape (h, w, 3)."""
        pixels = self._pixels[PassOutput.COLOUR]()
        if pixels.shape[2] == 3:
            return pixels
        return cast("npt.NDArray[np.uint8]", cv2.cvtColor(pixels, cv2.COLOR_RGBA2RGB))

    def z_m(self) -> npt.NDArray[np.float32]:
        """Return z-depth in metres, shape (h, w), until the next call.

        Beyond every full scale without a surface.
        """
        return self._pixels[PassOutput.Z]()

    def normals(self) -> npt.NDArray[np.float16]:
        """Return normals in optical axes, shape (h, w, 3), 0 without a surface."""
        packed = self._pixels[PassOutput.NORMAL]()
        return np.asarray(cv2.cvtColor(packed.view(np.uint16), cv2.COLOR_RGBA2RGB)).view(np.float16)

    def ids(self) -> npt.NDArray[np.uint32]:
        """Return semantic id << 16 | instance id, shape (h, w), until the next call."""
        return self._pixels[PassOutput.IDS]()

    def flow_px(self) -> npt.NDArray[np.float32]:
        """Return flow in pixels, shape (h, w, 2); ``NO_FLOW`` if unknown."""
        return self._pixels[PassOutput.FLOW]()


class TargetCache:
    """Framebuffers by size, outputs and samples; the least recently used ones are released."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self._ctx = ctx
        self._limit_px = int(
            min(ctx.info["GL_MAX_TEXTURE_SIZE"], ctx.info["GL_MAX_RENDERBUFFER_SIZE"])
        )
        self._old: list[moderngl.Framebuffer] = []
        self._targets: LruByteCache[tuple[int, int, PassOutput, int, int], moderngl.Framebuffer]
        self._targets = LruByteCache(_TARGET_BYTES, _nbytes, self._old.append)

    def tidy(self) -> None:
        """Release dropped framebuffers.

        Not while a picture is drawn or read, which may still need one.
        """
        while self._old:
            _release(self._old.pop())

    def get(
        self, size_px: tuple[int, int], outputs: PassOutput, samples: int = 1, *, slot: int = 0
    ) -> moderngl.Framebuffer:
        """Return a framebuffer, valid until the next :meth:`tidy`.

        Pictures that wait to be read differ in their slot.

        Raises:
            RendererError: it is larger than this machine can have.
        """
        return self._targets.get(
            (*size_px, outputs, samples, slot), lambda: self._make(size_px, outputs, samples)
        )

    def _make(
        self, size: tuple[int, int], outputs: PassOutput, samples: int
    ) -> moderngl.Framebuffer:
        import moderngl

        if max(size) > self._limit_px:
            raise RendererError(
                f"a picture of {size[0]}x{size[1]} pixels, where this machine draws "
                f"{self._limit_px}"
            )
        ctx = self._ctx
        multi = samples if samples > 1 else 0
        try:
            attachments = [
                ctx.texture(size, components, dtype=dtype, samples=multi)
                for output, (components, dtype) in _FORMATS.items()
                if output in outputs
            ]
            if not multi:
                for texture in attachments:
                    texture.filter = (ctx.NEAREST, ctx.NEAREST)
            return ctx.framebuffer(attachments, ctx.depth_renderbuffer(size, samples=multi))
        except moderngl.Error as exc:
            raise RendererError(
                f"no memory for a picture of {size[0]}x{size[1]} pixels: {exc}"
            ) from exc


def _nbytes(target: moderngl.Framebuffer) -> int:
    """Return the memory of a framebuffer, its depth included."""
    colours = cast("Any", target.color_attachments)
    per_sample = 4 + sum(texture.components * int(texture.dtype[1]) for texture in colours)
    width, height = target.size
    return _SMALLEST_BYTES + int(per_sample * width * height * max(1, target.samples))


def _release(target: moderngl.Framebuffer) -> None:
    for attachment in (*target.color_attachments, target.depth_attachment):
        if attachment is not None:
            attachment.release()
    target.release()
