"""A sphere and a box in fcl, which are moved and resized for each question."""

from __future__ import annotations

from typing import Any

from vil_renderer.embedded.geometry.separation import OrientedBox, Sphere
from vil_renderer.embedded.optional_imports import load_native


class ReusedShapes:
    """A sphere and a box that take the place and size of each vehicle that is asked for.

    Each collision object that is made leaves 32 bytes behind (python-fcl 0.7): 2 MB a minute for a
    vehicle at a wall.

    Raises:
        RendererError: python-fcl is not installed.
    """

    def __init__(self) -> None:
        self._fcl = load_native("fcl", "python-fcl", "collisions")
        self._sphere, self._box = self._fcl.Sphere(1.0), self._fcl.Box(1.0, 1.0, 1.0)
        self._sphere_object = self._fcl.CollisionObject(self._sphere, self._fcl.Transform())
        self._box_object = self._fcl.CollisionObject(self._box, self._fcl.Transform())

    def of(self, shape: Sphere | OrientedBox) -> Any:
        """Return fcl's object of a shape, valid until the next call."""
        if isinstance(shape, Sphere):
            self._sphere.radius = shape.radius
            self._sphere_object.setTransform(self._fcl.Transform(shape.centre))
            return self._sphere_object
        self._box.side = 2.0 * shape.half
        self._box_object.setTransform(self._fcl.Transform(shape.axes.T, shape.centre))
        return self._box_object
