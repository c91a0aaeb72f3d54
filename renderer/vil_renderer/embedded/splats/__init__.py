"""Gaussian splats: scans as environment, to look at; a proxy mesh stands for them in everything else."""

from vil_renderer.embedded.splats.project import Projected, project
from vil_renderer.embedded.splats.raster import rasterise
from vil_renderer.embedded.splats.read import SplatCloud, read_splats

__all__ = ["Projected", "SplatCloud", "project", "rasterise", "read_splats"]
