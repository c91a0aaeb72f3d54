"""Axes of a NatNet stream: y up, or z up as in the room."""

from __future__ import annotations

from typing import Literal

import numpy as np

from vil_bridge.core.geometry import yup_to_zup, zup_to_yup
from vil_bridge.core.types import FloatArray

UpAxis = Literal["y", "z"]


def streamed_to_zup(p: FloatArray, q: FloatArray, up_axis: UpAxis) -> tuple[FloatArray, FloatArray]:
    """Convert poses that a server with this up axis streams to those of the room frame."""
    return yup_to_zup(p, q) if up_axis == "y" else (p, q)


def zup_to_streamed(p: FloatArray, q: FloatArray, up_axis: UpAxis) -> tuple[FloatArray, FloatArray]:
    """Convert poses of the room frame to those that a server with this up axis streams."""
    return zup_to_yup(p, q) if up_axis == "y" else (p, q)


def pose_matrix(scale_m: float, up_axis: UpAxis) -> FloatArray:
    """Return the factors by which streamed pose rows (n, 7) become room poses in metres.

    One in each column.
    """
    matrix = np.zeros((7, 7))
    matrix[:3, :3] = streamed_to_zup(np.eye(3), np.zeros((3, 4)), up_axis)[0] * scale_m
    matrix[3:, 3:] = streamed_to_zup(np.zeros((4, 3)), np.eye(4), up_axis)[1]
    return matrix
