"""Light around places, and that around posed models on the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.engine.materials import MODEL_LIGHT_SLOT
from vil_renderer.embedded.engine.shader_frame import LIGHT_TERMS, MODELS_PER_ROW

if TYPE_CHECKING:
    import moderngl

_CORNERS: Final = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class LightField:
    """Light on surfaces of all directions at the points of a grid.

    A surface with the normal n gets the sum of its terms times x^2, y^2, z^2, x, y, z, xy, yz and
    zx of n.

    Attributes:
        low_m: the first point, (3,). step_m: between neighbours, (3,). shape: points along each
            axis.
        terms: of each point, linear RGB, and in the first one the share of the sun that is seen,
            float32 (p, 9, 4).
        weight: of each point among its neighbours, float32 (p,), above 0.
    """

    low_m: FloatArray
    step_m: FloatArray
    shape: tuple[int, int, int]
    terms: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32]

    def at(self, p_m: FloatArray) -> npt.NDArray[np.float32]:
        """Return the terms at places (n, 3), float32 (n, 9, 4).

        Between the points by their weights.
        """
        most = np.array(self.shape, np.float64) - 1.0
        place = np.clip(np.nan_to_num((p_m - self.low_m) / self.step_m), 0.0, most)
        first = np.minimum(place.astype(np.intp), np.maximum(most - 1.0, 0.0).astype(np.intp))
        share = place - first
        corner = np.minimum(first[:, None] + _CORNERS, most.astype(np.intp))
        index = (corner[..., 0] * self.shape[1] + corner[..., 1]) * self.shape[2] + corner[..., 2]
        near = (
            np.where(_CORNERS == 1, share[:, None], 1.0 - share[:, None]).prod(axis=2)
            * self.weight[index]
        )
        near /= near.sum(axis=1, keepdims=True)
        terms = self.terms[index].reshape(len(index), len(_CORNERS), -1)
        mixed: npt.NDArray[np.float32] = near[:, None].astype(np.float32) @ terms
        return mixed.reshape(-1, LIGHT_TERMS, 4)


class ModelLightMap:
    """Texture of the light around each posed model."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self._ctx = ctx
        self._texture: moderngl.Texture | None = None

    def send(self, field: LightField, p_m: FloatArray) -> None:
        """Write the light at the places of models, (n, 3)."""
        height = max(1, -(-len(p_m) // MODELS_PER_ROW))
        if self._texture is None or self._texture.height < height:
            if self._texture is not None:
                self._texture.release()
            self._texture = self._ctx.texture((MODELS_PER_ROW * LIGHT_TERMS, height), 4, dtype="f4")
            self._texture.filter = (self._ctx.NEAREST, self._ctx.NEAREST)
        rows = np.zeros((height * MODELS_PER_ROW, LIGHT_TERMS, 4), np.float32)
        rows[: len(p_m)] = field.at(p_m)
        self._texture.write(rows, viewport=(0, 0, MODELS_PER_ROW * LIGHT_TERMS, height))

    def use(self) -> None:
        """Bind it for the surface shader."""
        if self._texture is not None:
            self._texture.use(MODEL_LIGHT_SLOT)
