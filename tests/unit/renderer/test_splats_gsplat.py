"""Splats in pictures against the reference functions of PyPI's gsplat, where that and PyTorch
are installed.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import looking
from tests.support.splat_formats import Stored, write_format
from vil_benchmarks.splats_hall import hall_splats
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel
from vil_renderer.embedded.splats import arranged, project, rasterise, read_splats

pytest.importorskip("numba", reason="numba (extra splat) is not installed")
pytest.importorskip("gsplat", reason="gsplat 1.5 is not installed: pip install gsplat torch")

CAMERA = CameraModel("small", 160, 120, math.radians(70.0))
POSE = looking((-7.0, -1.0, 1.6), 15.0, 5.0)


def reference(
    splats: Stored, camera: CameraModel, T_world_camera: Transform, *, mip: bool
) -> npt.NDArray[np.float64]:
    """Colour over black, (h, w, 3): gsplat's covariance, projection and harmonics."""
    import torch

    gs = importlib.import_module("gsplat.cuda._torch_impl")

    def tensor(values: npt.ArrayLike) -> Any:
        return torch.as_tensor(np.asarray(values, np.float64))

    fx, fy, cx, cy = camera.intrinsics_px
    # Gsplat samples at integers + 0.5.
    K = tensor([[fx, 0.0, cx + 0.5], [0.0, fy, cy + 0.5], [0.0, 0.0, 1.0]])
    width, height = camera.width_px, camera.height_px
    covariance, _ = gs._quat_scale_to_covar_preci(
        tensor(splats.unit_q), tensor(np.exp(splats.log_scale))
    )
    view = tensor(T_world_camera.inverse().matrix())
    radii, means, depths, conics, factors = gs._fully_fused_projection(
        tensor(splats.p),
        covariance,
        view[None],
        K[None],
        width,
        height,
        near_plane=0.2,
        calc_compensations=mip,
    )
    d = splats.p - T_world_camera.p_m
    degree = round(math.sqrt(splats.sh.shape[1])) - 1
    colours = gs._spherical_harmonics(
        degree, tensor(d / np.linalg.norm(d, axis=1, keepdims=True)), tensor(splats.sh)
    )
    opacities = tensor(splats.opacity) * (factors[0] if mip else 1.0)
    order = torch.argsort(depths[0])
    order = order[(radii[0] > 0).all(dim=-1)[order]]
    shades = (colours + 0.5).clamp(0.0, 1.0)[order]
    x, lines = torch.arange(width) + 0.5, []
    # Gsplat's own blending needs CUDA; alphas and weights are those of its `accumulate`.
    for y in range(height):
        du, dv = x[:, None] - means[0][order][None, :, 0], y + 0.5 - means[0][order][None, :, 1]
        a, b, c = conics[0][order].T[:, None]
        alpha = (
            opacities[order] * torch.exp(-0.5 * (a * du**2 + c * dv**2) - b * du * dv)
        ).clamp_max(0.999)
        alpha = torch.where(alpha >= 1.0 / 255.0, alpha, 0.0)
        through = torch.cumprod(1.0 - alpha, dim=1)
        weight = alpha * torch.cat([torch.ones(width, 1), through[:, :-1]], dim=1)
        lines.append(weight @ shades)
    return np.asarray(torch.stack(lines).numpy(), np.float64)


@pytest.mark.parametrize(("degree", "mip"), [(0, False), (3, False), (0, True)])
def test_a_hall_looks_as_gsplat_shows_it(tmp_path: Path, degree: int, mip: bool) -> None:
    s = hall_splats(2000, degree)
    logit = np.log(s.opacity / (1.0 - s.opacity))
    splats = Stored(*(np.asarray(a, np.float64) for a in (s.p, s.log_scale, s.q_wxyz, logit, s.sh)))
    path = write_format(tmp_path / "hall.ply", splats)
    if mip:
        path.write_bytes(
            path.read_bytes().replace(b"comment made by a test", b"comment SplatRenderMode: mip")
        )
    depth = np.full((CAMERA.height_px, CAMERA.width_px), 1e6, np.float32)
    ours = rasterise(project(arranged(read_splats(path)), CAMERA, POSE, np.eye(4)), depth)[..., :3]
    theirs = reference(splats, CAMERA, POSE, mip=mip)
    assert theirs.mean() > 0.2
    print("mean", 255.0 * float(np.abs(ours - theirs).mean()), "of 255")
    assert float(np.abs(ours - theirs).mean()) <= 2.0 / 255.0
