"""A scan of a hall as a scene that is metric and aligned with the motion-capture room."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from vil_bridge.core.errors import ConfigError
from vil_renderer.scan.alignment import ScanPlacement, align
from vil_renderer.scan.marks import (
    MeasuredPoint,
    Sighting,
    find_tags,
    read_measured,
    read_picks,
)
from vil_renderer.scan.triangulation import ScanPoint, triangulate
from vil_renderer.scan.views import read_views

_SPLATS: Final = (
    "splat.ply",
    "splats.ply",
    "exports/splat/splat.ply",
    "point_cloud.ply",
    "point_cloud/iteration_*/point_cloud.ply",
)
"""Splats as training programs write them, in the axes of the pictures; other formats turn these."""
_VAGUE_M: Final = 0.02
"""Standard deviation from which a point is listed."""
_MESHES: Final = ("mesh.ply", "mesh.obj", "exports/mesh/mesh.ply", "dense/meshed-poisson.ply")


@dataclass(frozen=True, slots=True, eq=False)
class ImportedScan:
    """An aligned scan.

    Attributes:
        points: measured ones that were found in the scan, and ``found``, where; in the same order.
        absent: reasons by name, for those that were not. check_m: distances left at points that
            only judge.
    """

    placement: ScanPlacement
    points: tuple[MeasuredPoint, ...]
    found: tuple[ScanPoint, ...]
    absent: dict[str, str]
    check_m: dict[str, float]
    splats: Path | None
    proxy: Path | None

    @property
    def used(self) -> list[MeasuredPoint]:
        """Points that the alignment is made of and agrees with."""
        fitted = [point for point in self.points if not point.check]
        return [point for point, used in zip(fitted, self.placement.used, strict=True) if used]

    @property
    def spread_m(self) -> dict[str, float]:
        """Standard deviations of the points by their pictures, each in its worst direction."""
        worst = [float(np.linalg.eigvalsh(place.covariance)[-1]) for place in self.found]
        return {
            point.name: self.placement.scale * math.sqrt(variance)
            for point, variance in zip(self.points, worst, strict=True)
        }

    def figures(self) -> dict[str, Any]:
        """Return the errors as numbers, for programs."""
        placement = self.placement
        used_m = placement.residuals_m[placement.used]
        fitted = [point.name for point in self.points if not point.check]
        return {
            "scale": placement.scale,
            "p_m": placement.T_world_scan.p_m.tolist(),
            "q_xyzw": placement.T_world_scan.q_xyzw.tolist(),
            "used": [point.name for point in self.used],
            "residual_m_rms": _rms(used_m),
            "residual_m_max": float(used_m.max()),
            "left_out_m_rms": _rms(placement.left_out_m),
            "check_m": self.check_m,
            "contradict_m": {
                name: float(m)
                for name, m, u in zip(fitted, placement.residuals_m, placement.used, strict=True)
                if not u
            },
            "rotation_deg_1_sigma": math.degrees(placement.rotation_rad),
            "scale_share_1_sigma": placement.scale_share,
            "reprojection_px_rms": _rms(np.array([point.reprojection_px for point in self.found])),
            "pictures_m_1_sigma": self.spread_m,
            "absent": self.absent,
        }


def _rms(values: Any) -> float | None:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else None


def import_scan(
    folder: Path,
    measured: Path,
    *,
    picks: Path | None = None,
    splats: Path | None = None,
    proxy: Path | None = None,
    progress: Callable[[float], None],
) -> ImportedScan:
    """Return a scan aligned by measured points.

    Args:
        folder: of COLMAP or nerfstudio, with its pictures.
        measured: table of points, see :func:`~vil_renderer.scan.marks.read_measured`.
        picks: table of points picked in pictures; others are AprilTags.
        splats: as PLY; None = looked for in the folder.
        proxy: mesh of the same scan; None = looked for in the folder.
        progress: gets the share of the pictures that were searched.

    Raises:
        ConfigError: a file is malformed, or too few points are known in both.
    """
    views = read_views(folder)
    points = read_measured(measured)
    sightings: dict[str, list[Sighting]] = {} if picks is None else read_picks(picks, views)
    tags = [
        point.name
        for point in points
        if point.name.startswith("tag") and point.name not in sightings
    ]
    if tags:
        sightings |= find_tags(views, tags, progress)
    places = {point.name: triangulate(views, sightings.get(point.name, [])) for point in points}
    known = tuple(point for point in points if isinstance(places[point.name], ScanPoint))
    found = tuple(place for point in points if isinstance(place := places[point.name], ScanPoint))
    p_world = np.array([point.p_m for point in known]).reshape(-1, 3)
    p_scan = np.array([place.p_scan for place in found]).reshape(-1, 3)
    fit = np.array([not point.check for point in known], bool)
    covariance = np.array([place.covariance for place in found]).reshape(-1, 3, 3)
    placement = align(
        [p.name for p in known if not p.check], p_world[fit], p_scan[fit], covariance[fit]
    )
    errors_m = np.linalg.norm(placement.apply(p_scan) - p_world, axis=1)
    return ImportedScan(
        placement,
        known,
        found,
        {name: place for name, place in places.items() if isinstance(place, str)},
        {point.name: float(m) for point, m in zip(known, errors_m, strict=True) if point.check},
        splats or _newest(folder, _SPLATS),
        proxy or _newest(folder, _MESHES),
    )


def made_from(folder: Path) -> Path | None:
    """Return splats or a mesh that were made from a scan's pictures; None = the folder has none."""
    return _newest(folder, _SPLATS) or _newest(folder, _MESHES)


def _newest(folder: Path, patterns: Sequence[str]) -> Path | None:
    """Return the first file that exists; of several iterations the last one."""
    for pattern in patterns:
        files = sorted(
            folder.glob(pattern), key=lambda path: (len(path.parent.name), path.parent.name)
        )
        if files:
            return files[-1]
    return None


def write_scene(scan: ImportedScan, out: Path) -> None:
    """Write the scene file, with the errors of its alignment as comments.

    Raises:
        ConfigError: the scan has neither splats nor a mesh, or the splats are not PLY.
    """
    if scan.splats is not None and scan.splats.suffix != ".ply":
        raise ConfigError(
            f"{scan.splats}: only splats as PLY have the axes of the pictures; export them as PLY"
        )
    place = {
        "scale": round(scan.placement.scale, 9),
        "up": "z",
        "p_m": [round(v, 6) for v in scan.placement.T_world_scan.p_m.tolist()],
        "q_xyzw": [round(v, 9) for v in scan.placement.T_world_scan.q_xyzw.tolist()],
    }
    data: dict[str, Any] = {"scene": out.stem}
    if scan.splats is not None:
        proxy = {} if scan.proxy is None else {"proxy": _relative(scan.proxy, out)}
        data["splats"] = {"file": _relative(scan.splats, out), **proxy, **place}
    elif scan.proxy is not None:
        data["objects"] = [{"name": "scan", "file": _relative(scan.proxy, out), **place}]
    else:
        raise ConfigError(
            "the folder has no splats and no mesh: train splats and put them there as "
            "splat.ply, or name them by "
            "--splats or --proxy"
        )
    lines = [f"# {line}" for line in report(scan)]
    out.write_text(
        "\n".join(lines) + "\n" + yaml.safe_dump(data, sort_keys=False), encoding="utf-8"
    )


def _relative(path: Path, out: Path) -> str:
    return os.path.relpath(path.resolve(), out.resolve().parent)


def report(scan: ImportedScan) -> list[str]:
    """Return the errors of an alignment in words."""
    figures = scan.figures()
    placement = scan.placement
    lines = [
        f"aligned by {len(scan.used)} points: rms {1e3 * figures['residual_m_rms']:.1f} mm, "
        f"largest {1e3 * figures['residual_m_max']:.1f} mm",
        f"1 unit of the scan is {placement.scale:.6g} m (+- {100 * placement.scale_share:.2g} %), "
        f"rotation +- {figures['rotation_deg_1_sigma']:.2g} degrees, "
        f"reprojection {figures['reprojection_px_rms']:.2f} px",
    ]
    if figures["left_out_m_rms"] is not None:
        lines.append(f"each point by the others: rms {1e3 * figures['left_out_m_rms']:.1f} mm")
    if scan.check_m:
        rms_mm = 1e3 * (_rms(list(scan.check_m.values())) or 0.0)
        worst = max(scan.check_m, key=scan.check_m.__getitem__)
        largest_mm = 1e3 * scan.check_m[worst]
        lines.append(
            f"{len(scan.check_m)} check points: rms {rms_mm:.1f} mm, largest "
            f"{largest_mm:.1f} mm ({worst})"
        )
    else:
        lines.append("no check points: mark measured points with check = 1 to judge the alignment")
    vague = {name: m for name, m in scan.spread_m.items() if m > _VAGUE_M}
    lines += [
        f"the pictures know {name} to +- {1e3 * m:.0f} mm: film it from more directions"
        for name, m in vague.items()
    ]
    lines += [
        f"{name} contradicts the others by {1e3 * m:.0f} mm: not used"
        for name, m in figures["contradict_m"].items()
    ]
    lines += [f"{name} is not used: {why}" for name, why in scan.absent.items()]
    return lines
