"""OpenGL on one device, for one renderer or for several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from vil_renderer.embedded.engine.context import open_context
from vil_renderer.embedded.engine.programs import Programs
from vil_renderer.embedded.engine.readback import readback_for


class OpenGL:
    """A context, its compiled programs and the reader of its pictures.

    Use it from the thread that made it.

    Args:
        device: which GPU, in CUDA's order; None = the first one, else the CPU unless
            CUDA_VISIBLE_DEVICES names a GPU.

    Attributes:
        ctx: the context. programs: compiled when first needed. readback: how pictures get to
            memory.

    Raises:
        RendererError: no such GPU, or no OpenGL; the message names what to install.
    """

    def __init__(self, device: int | None = None) -> None:
        self.ctx = open_context(device)
        self.programs = Programs(self.ctx)
        with self.ctx:
            self.readback = readback_for(self.ctx)
            self._idle = self.ctx.simple_framebuffer((1, 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the context and all its memory.

        On a GPU once the last picture is gone, since it lies there.
        """
        self.readback.close()

    @contextlib.contextmanager
    def releasing(self) -> Iterator[None]:
        """Release what loses its last reference within the block."""
        with self.ctx as ctx:
            self._idle.use()  # the context refers to the framebuffer in use
            ctx.gc_mode = "auto"
            try:
                yield
            finally:
                ctx.gc_mode = None
