"""Gaussian splats: scans as visible environment."""

from vil_renderer.embedded.splats.cloud import SplatCloud
from vil_renderer.embedded.splats.field import SplatField, arranged
from vil_renderer.embedded.splats.raster import Projected, project, rasterise
from vil_renderer.embedded.splats.read import read_splats

__all__ = [
    "Projected",
    "SplatCloud",
    "SplatField",
    "arranged",
    "project",
    "rasterise",
    "read_splats",
]
