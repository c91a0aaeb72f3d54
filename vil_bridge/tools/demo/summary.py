"""The demo's figures: what the client received, what the bridge measured, what the pictures show."""

from __future__ import annotations

from typing import Any

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.tools.demo.collect import StreamReader
from vil_bridge.tools.demo.evaluate import Evaluation

__all__ = ["summarise", "summary_lines"]


def summarise(
    readers: dict[str, StreamReader],
    status: dict[str, Any],
    compared: dict[str, Evaluation],
    spawned_ns: int,
    exit_codes: dict[str, int],
) -> dict[str, Any]:
    """Return one JSON object; None stands for unknown."""
    main = readers["compensated"]
    front = status["cameras"]["front"]
    return {
        "frames_received": main.frames,
        "fps": round(main.fps, 2),
        "first_picture_s": None if main.first_ns is None else round((main.first_ns - spawned_ns) / NS_PER_S, 2),
        "latency_ms": {stage: _milliseconds(view["since_start"]) for stage, view in front["latency"].items()},
        "dropped": _dropped(readers, status),
        "reprojection_px": _reprojection(compared),
        "tracking": {name: actor["seen"] for name, actor in status["actors"].items()},
        "sources": {name: _source(source) for name, source in status["sources"].items()},
        "compensation": front["compensation"],
        "streams": {name: {"frames": r.frames, "fps": round(r.fps, 2)} for name, r in readers.items()},
        "exit_codes": exit_codes,
    }


def _milliseconds(view: dict[str, Any]) -> dict[str, Any]:
    return {k: view[f"{k}_ms"] for k in ("p50", "p95", "p99", "max")} | {"count": view["count"]}


def _dropped(readers: dict[str, StreamReader], status: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {
        "bridge": status["cameras"]["front"]["dropped"],
        "stream": status["streams"]["front"]["dropped"],
        "client": {r: n for r, n in readers["compensated"].dropped.items() if r in ("superseded", "late", "malformed")},
    }


def _source(source: dict[str, Any]) -> dict[str, Any]:
    return {"frames": source["frames"], "clock": source["clock"], "counters": source["report"]["counters"]}


def _reprojection(compared: dict[str, Evaluation]) -> dict[str, Any]:
    raw, warped = compared["raw"], compared["compensated"]
    ratio = None if not (raw.median_px and warped.median_px) else raw.median_px / warped.median_px
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
    lines = [
        f"{summary['frames_received']} pictures, {summary['fps']:.1f} per second, "
        + (f"the first after {first:.1f} s" if first is not None else "none came"),
        f"{'stage':24} {'p50':>8} {'p95':>8} {'p99':>8} {'max':>8}  ms",
    ]
    for stage, values in summary["latency_ms"].items():
        cells = " ".join(
            f"{values[k]:8.2f}" if values[k] is not None else "       -" for k in ("p50", "p95", "p99", "max")
        )
        lines.append(f"{stage:24} {cells}")
    if pixels["uncompensated"] is not None and pixels["compensated"] is not None:
        lines.append(
            f"reprojection error {pixels['uncompensated']:.2f} px uncompensated, {pixels['compensated']:.2f} px "
            f"compensated ({pixels['ratio']:.1f} times smaller, {pixels['pictures']} pictures)"
        )
    return lines
