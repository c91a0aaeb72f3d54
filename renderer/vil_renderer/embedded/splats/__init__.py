"""Gaussian splats: scans as visible environment; a proxy mesh replaces them in everything else."""

from vil_renderer.embedded.splats.raster import Projected, project, rasterise
from vil_renderer.embedded.splats.read import SplatCloud, read_splats

__all__ = ["Projected", "SplatCloud", "project", "rasterise", "read_splats"]
