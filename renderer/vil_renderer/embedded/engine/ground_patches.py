"""Dark patches on the ground below actors, as instances of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import moderngl

SQUARE: Final = np.array([[-1, -1, 0], [1, -1, 0], [-1, 1, 0], [1, 1, 0]], np.float32)[
    [0, 1, 2, 2, 1, 3]
]


class GroundPatches:
    """Patches, each an instance of a few triangles; the shader makes them round.

    Args:
        ctx: OpenGL.
        program: it reads ``in_p``, ``in_place`` and ``in_shape``.
        corners: of the triangles in units of the radius, float32 (n, 3).
    """

    def __init__(
        self, ctx: moderngl.Context, program: moderngl.Program, corners: npt.NDArray[np.float32]
    ) -> None:
        self._ctx = ctx
        self._program = program
        self._corners = ctx.buffer(corners.tobytes())
        self._allocate(16)

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        self._places = self._ctx.buffer(reserve=rows * 20, dynamic=True)
        instance = cast("Any", (self._places, "3f 2f/i", "in_place", "in_shape"))
        self._array = self._ctx.vertex_array(
            self._program, [(self._corners, "3f", "in_p"), instance]
        )

    def draw(self, blobs: npt.NDArray[np.float32]) -> None:
        """Draw patches (k, 5): place, radius and strength."""
        if len(blobs) > self._rows:
            self._array.release()
            self._places.release()
            self._allocate(2 * len(blobs))
        self._places.orphan()
        self._places.write(np.ascontiguousarray(blobs, np.float32))
        self._array.render(self._ctx.TRIANGLES, instances=len(blobs))
