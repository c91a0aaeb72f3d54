"""The demo's results: figures for people and programs, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import DEPTH_UNITS_PER_M, ImageArray
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.protocols import opencv as cv2
from vil_simulation.demo.collect import StreamReader
from vil_simulation.demo.evaluate import Delivered, Evaluation, Evaluator


def summarise(
    readers: dict[str, StreamReader],
    status: dict[str, Any],
    compared: dict[str, Evaluation],
    spawned_ns: int,
    untracked_s: float,
    exit_codes: dict[str, int],
) -> dict[str, Any]:
    """Return one JSON object; None stands for unknown.

    Args:
        readers: of the streams, by name.
        status: of the bridge at the end.
        compared: errors of the pictures, by kind.
        spawned_ns: when the first process started.
        untracked_s: for how long a recording loses its tracking between the first and the newest
            picture.
        exit_codes: of the processes, by name.
    """
    main = readers["compensated"]
    front = status["cameras"]["front"]
    first_s: float | None = None
    if main.first_ns is not None:
        first_s = round((main.first_ns - spawned_ns) / NS_PER_S, 2)
    return {
        "frames_received": main.frames,
        "fps": round(main.fps, 2),
        "fps_while_tracked": round(main.fps_without(untracked_s), 2),
        "seconds": round(main.seconds, 2),
        "untracked_s": round(untracked_s, 2),
        "first_picture_s": first_s,
        "latency_ms": {
            stage: _milliseconds(view["since_start"]) for stage, view in front["latency"].items()
        },
        "dropped": _dropped(readers, status),
        "reprojection_px": _reprojection(compared),
        "tracking": {name: actor["seen"] for name, actor in status["actors"].items()},
        "sources": {name: _source(source) for name, source in status["sources"].items()},
        "compensation": front["compensation"],
        "streams": {
            name: {"frames": r.frames, "fps": round(r.fps, 2)} for name, r in readers.items()
        },
        "exit_codes": exit_codes,
    }


def _milliseconds(view: dict[str, Any]) -> dict[str, Any]:
    return {k: view[f"{k}_ms"] for k in ("p50", "p95", "p99", "max")} | {"count": view["count"]}


def _dropped(readers: dict[str, StreamReader], status: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {
        "bridge": status["cameras"]["front"]["dropped"],
        "stream": status["streams"]["front"]["dropped"],
        "client": {
            r: n
            for r, n in readers["compensated"].dropped.items()
            if r in ("superseded", "late", "too_old", "malformed")
        },
    }


def _source(source: dict[str, Any]) -> dict[str, Any]:
    return {
        "frames": source["frames"],
        "clock": source["clock"],
        "counters": source["report"]["counters"],
    }


def _reprojection(compared: dict[str, Evaluation]) -> dict[str, Any]:
    raw = compared["raw"]
    warped = compared["compensated"]
    ratio: float | None = None
    if raw.median_px and warped.median_px:
        ratio = raw.median_px / warped.median_px
    return {
        "uncompensated": raw.median_px,
        "compensated": warped.median_px,
        "ratio": ratio,
        "uncompensated_p95": raw.p95_px,
        "compensated_p95": warped.p95_px,
        "corners": {"uncompensated": raw.corners, "compensated": warped.corners},
        "pictures": warped.pictures,
    }


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """Return the summary for people."""
    pixels = summary["reprojection_px"]
    first = summary["first_picture_s"]
    rate = f"{summary['fps']:.1f} per second"
    if summary["untracked_s"]:
        rate = (
            f"{summary['fps_while_tracked']:.1f} per second while tracked "
            f"(the recording loses tracking for {summary['untracked_s']:.1f} of "
            f"{summary['seconds']:.1f} s)"
        )
    begun = "none came"
    if first is not None:
        begun = f"the first after {first:.1f} s"
    lines = [
        f"{summary['frames_received']} pictures, {rate}, {begun}",
        f"{'stage':24} {'p50':>8} {'p95':>8} {'p99':>8} {'max':>8}  ms",
    ]
    for stage, values in summary["latency_ms"].items():
        cells = " ".join(
            f"{values[k]:8.2f}" if values[k] is not None else "       -"
            for k in ("p50", "p95", "p99", "max")
        )
        lines.append(f"{stage:24} {cells}")
    if pixels["uncompensated"] is not None and pixels["compensated"] is not None:
        lines.append(
            f"reprojection error {pixels['uncompensated']:.2f} px uncompensated, "
            f"{pixels['compensated']:.2f} px "
            f"compensated ({pixels['ratio']:.1f} times smaller, {pixels['pictures']} pictures)"
        )
    return lines


_DEPTH_SHOWN_M = 15.0


def save_pictures(
    out: Path, readers: dict[str, StreamReader], evaluator: Evaluator, camera: CameraInfo
) -> None:
    """Write raw, compensated, reference, difference, depth and the two actors as PNG into ``out``.

    Raw and compensated are the pair with the largest turn in between, where there is most to see;
    ``difference.png`` shows both against the reference: left raw, right compensated.
    """
    pair = _most_turned(readers["raw"].retained, readers["compensated"].retained)
    if pair is not None:
        raw, compensated = pair
        _write(out / "raw.png", raw.gray)
        _write(out / "compensated.png", compensated.gray)
        references = [evaluator.reference(camera, picture.t_use_ns) for picture in pair]
        if references[0] is not None and references[1] is not None:
            _write(out / "reference.png", references[1])
            off = [
                cv2.absdiff(p.gray, r)
                for p, r in zip(pair, references, strict=True)
                if r is not None
            ]
            _write(out / "difference.png", np.hstack(off))
    depth = readers["depth"].newest
    if depth is not None:
        metres = depth[1] / DEPTH_UNITS_PER_M
        shade = np.clip(255.0 * metres / _DEPTH_SHOWN_M, 0, 255).astype(np.uint8)
        _write(out / "depth.png", cv2.applyColorMap(255 - shade, cv2.COLORMAP_TURBO))
    observer = readers["observer"].best
    if observer is not None:
        _write(
            out / "two_actors.png",
            cv2.cvtColor(np.ascontiguousarray(observer[1]), cv2.COLOR_RGB2BGR),
        )


def _most_turned(
    raw: list[Delivered], compensated: list[Delivered]
) -> tuple[Delivered, Delivered] | None:
    """Return the pictures of both streams from one request (or nearly), where the late warp
    turned most.
    """
    if not raw or not compensated:
        return None
    best = max(compensated, key=lambda d: d.header["compensation"].get("angle_rad", 0.0))
    return min(raw, key=lambda d: abs(d.t_use_ns - best.t_use_ns)), best


def _write(path: Path, image: ImageArray) -> None:
    if not cv2.imwrite(str(path), image):
        raise OSError(f"cannot write {path}")
