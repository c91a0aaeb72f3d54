"""The ledger as one page of HTML that needs nothing else.

Light and dark, charts inside, no scripts.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.monitoring.frame_records import PARTS, STAGES, CameraHead, CameraLedger
from vil_bridge.monitoring.latency import percentiles
from vil_bridge.monitoring.report.figures import CameraFigures, PredictionErrors, figures_of
from vil_bridge.monitoring.report.svg_charts import bars, histogram, stack, timeline

_TOTAL: Final = "capture_to_received"
_NO_ERRORS: Final[Mapping[str, PredictionErrors]] = {}
_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --text: #1d2330; --soft: #667085; --line: #e3e7ee;
--dot: #3b6fd4;
  --gap: #d9480f55; --mark: #1d233099; --drop: #c2571a; --s0: #3b6fd4; --s1: #e0a100;
  --s2: #c2571a; --s3: #2a9d8f;
  --s4: #7b52c4; --s5: #d1618f; --s6: #5f8f2f; --v0: #24509e; --v1: #4c4fb3; --v2: #7a46b4;
  --v3: #a33ca6;
  --v4: #c5388a; --v5: #df4462; --v6: #e95f38; --v7: #ea7a0c; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #12151c; --text: #e6e9f0;
--soft: #98a2b3;
  --line: #2a303c; --dot: #7ea6ff; --gap: #ff8a4c66; --mark: #e6e9f0aa; --drop: #f0945c;
  --s0: #7ea6ff;
  --s1: #f2c14e; --s2: #f0945c; --s3: #5cc8ba; --s4: #b196f0; --s5: #f08fb8; --s6: #9ccb66;
  --v0: #5b8cff;
  --v1: #8f86ff; --v2: #b87df6; --v3: #dc76da; --v4: #f274a6; --v5: #ff8a70; --v6: #ffae50;
  --v7: #ffd84a; } }
body { margin: 0 auto; max-width: 960px; padding: 24px 16px 64px; background: var(--page);
color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 20px; margin: 40px 0 4px;
border-top: 1px solid var(--line);
  padding-top: 20px; } h3 { font-size: 15px; margin: 24px 0 4px; } p { margin: 4px 0; }
.soft, .tick { color: var(--soft); fill: var(--soft); } svg { width: 100%; height: auto;
display: block; }
.tick { font-size: 11px; } .name { font-size: 13px; fill: var(--text); }
.axis { stroke: var(--soft); }
.grid { stroke: var(--line); } .dots { stroke: var(--dot); stroke-width: 2.6;
stroke-linecap: round; fill: none; }
.few { stroke-width: 5; } .gap { fill: var(--gap); } .drop { fill: var(--drop); }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .l0 { stroke: var(--s0); }
.l1 { stroke: var(--s2); }
.l2 { stroke: var(--s3); } .box { fill: var(--s0); fill-opacity: .35; stroke: var(--s0);
stroke-width: 1.5; }
.l3 { stroke: var(--s4); } .l4 { stroke: var(--s1); } .l5 { stroke: var(--s5); }
.l6 { stroke: var(--s6); }
.mark { stroke: var(--mark); stroke-dasharray: 3 3; } .bare, .edge, .gate { fill: none; }
.s0 { fill: var(--s0); background: var(--s0); } .s1 { fill: var(--s1); background: var(--s1); }
.s2 { fill: var(--s2); background: var(--s2); } .s3 { fill: var(--s3); background: var(--s3); }
.s4 { fill: var(--s4); background: var(--s4); } .s5 { fill: var(--s5); background: var(--s5); }
.s6 { fill: var(--s6); background: var(--s6); } .total { fill: var(--soft);
background: var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
th:first-child, td:first-child { text-align: left; } tr.sum td { font-weight: 600; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 7px; }
.grid3 { display: grid; grid-template-columns: repeat(auto-fill, minmax(260px, 1fr));
gap: 4px 16px; }
.grid3 h4, .charts h4, .planes h4 { font-size: 13px; font-weight: 600; margin: 8px 0 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr));
gap: 4px 16px; }
.planes { display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr));
gap: 4px 12px; }
.charts path, .planes path { vector-effect: non-scaling-stroke; } .charts .tick { font-size: 12px; }
.edge { stroke: var(--text); stroke-width: 1.5; } .bar { fill: var(--line); }
.faint { stroke-opacity: .45; }
.gate { stroke: var(--text); stroke-width: 2.4; stroke-linecap: round; }
.back { stroke: var(--soft); stroke-width: 1;
  stroke-opacity: .5; } .tag { font-size: 12px; font-weight: 600; fill: var(--text);
  stroke: var(--page);
  stroke-width: 3px; paint-order: stroke; } .pole { fill: var(--soft); }
  .start { fill: var(--text); }
.cross { stroke: var(--drop); stroke-width: 2; } .spread { stroke: var(--text); stroke-width: 2;
fill: none; }
.rest { fill: var(--line); } .thin .curve { stroke-width: 1; stroke-opacity: .5; }
.v0 { --v: var(--v0); } .v1 { --v: var(--v1); } .v2 { --v: var(--v2); } .v3 { --v: var(--v3); }
.v4 { --v: var(--v4); } .v5 { --v: var(--v5); } .v6 { --v: var(--v6); } .v7 { --v: var(--v7); }
.charts .curve[class*=" v"] { stroke: var(--v); stroke-width: 2.4; }
.charts .thin .curve { stroke-width: 1; }
.shade { display: inline-block; width: 22px; height: 10px; background: var(--v); }
.shade, .swatch { print-color-adjust: exact; }
.scroll { overflow-x: auto; } .scroll table { font-size: 13px; }
.scroll th, .scroll td { padding: 2px 5px;
  white-space: nowrap; } .scroll :first-child:is(th, td) { position: sticky; left: 0;
  background: var(--page); }
.best { font-weight: 700; }
@media (min-width: 900px) { .charts > :only-child text { font-size: 6.5px; } }
.planes .dots { stroke-width: 3.4; stroke-opacity: .8; } .plain .curve { stroke: var(--s0);
stroke-width: 1; }
.planes h4 span { font-weight: 400; }
@media print { :root { color-scheme: light; } body { max-width: none; padding: 0; font-size: 12px; }
  h2, h3, h4, h3 + p { break-after: avoid; } svg, tr { break-inside: avoid; }
  .charts { grid-template-columns: 1fr 1fr; } .charts > :only-child { grid-column: 1 / -1; }
  .charts > :only-child text { font-size: 8px; } .scroll { overflow: visible; }
  .scroll table { font-size: 9px; }
  .scroll th, .scroll td { padding: 1px 3px; } .planes { grid-template-columns: repeat(5, 1fr); }
  .planes h4 { font-size: 10px; } .scroll :first-child:is(th, td) { position: static; } }
"""
REPORT_POLICY: Final = (
    "default-src 'none'; style-src "
    f"'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The ``Content-Security-Policy`` of the page: its own style and nothing else."""


def report_page(
    ledgers: Sequence[CameraLedger], errors: Mapping[str, PredictionErrors] = _NO_ERRORS
) -> str:
    """Return the page.

    Args:
        ledgers: of the cameras, in the order in which they are shown.
        errors: of predicted poses by camera, where measured ones are known.
    """
    bridge = escape(ledgers[0].head.bridge) if ledgers else "no camera"
    cameras = "".join(
        _camera(ledger) + _errors(errors.get(ledger.head.camera)) for ledger in ledgers
    )
    return html_page(f"Frames of {bridge}", f"{_scope(ledgers)}{cameras}")


def html_page(title: str, content: str) -> str:
    """Return a whole page in the reports' style; both texts are HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>{content}</body></html>\n"
    )


def _scope(ledgers: Sequence[CameraLedger]) -> str:
    if not ledgers:
        return "<p>The ledger holds no camera.</p>"
    head = ledgers[0].head
    at = datetime.fromtimestamp((head.t_ns + head.utc_offset_ns) / NS_PER_S, UTC)
    return (
        f'<p class="soft">VIL Bridge {escape(head.version)}, {at:%Y-%m-%d %H:%M:%S} UTC. '
        "Times in milliseconds.</p>"
    )


def _camera(ledger: CameraLedger) -> str:
    head = ledger.head
    figures = figures_of(ledger)
    title = f"<h2>Camera {escape(head.camera)}</h2>"
    if not len(figures.t_s):
        return f"{title}<p>No frame was handed over: the camera has no reader.</p>{_drops(head)}"
    return "".join(
        (
            title,
            _summary(head, figures),
            _way(figures),
            _stages(figures),
            _drops(head),
            _warp(figures),
        )
    )


def _summary(head: CameraHead, figures: CameraFigures) -> str:
    count = len(figures.t_s)
    span_s = float(figures.t_s[-1])
    rate = f", {(count - 1) / span_s:.1f} Hz of {head.rate_hz:g} asked" if span_s else ""
    missing = sum(gap.missing for gap in figures.gaps)
    total = percentiles(figures.stage_ns[_TOTAL])
    glass = "No frame was reported back as received by a reader whose clock is known."
    if total.count:
        glass = (
            f"Glass to glass {total.p50_ms:.1f} (median), {total.p95_ms:.1f} (95 %), "
            f"{total.max_ms:.1f} (longest)."
        )
    return (
        f"<p>{count} frames in {span_s:.1f} s{rate}; {total.count} with the whole way "
        "from capture to reception,"
        f" {figures.unreported} sent and not reported back, {figures.never_sent} never "
        "sent to a registered reader."
        f" Gaps: {len(figures.gaps)}, frames missing in them: {missing}.</p><p>{glass}</p>"
    )


def _way(figures: CameraFigures) -> str:
    gaps = [
        (g.begin_s, g.end_s, f"{g.missing} missing after {g.begin_s:.2f} s") for g in figures.gaps
    ]
    drawn = "<h3>Glass to glass, every frame; bands are gaps</h3>" + timeline(
        figures.t_s, figures.total_ms, "ms", "latency of every frame over time", gaps=gaps
    )
    if len(figures.parts_t_s):
        drawn += "<h3>Where the time goes: means of the stages, one on the other</h3>"
        drawn += stack(
            figures.parts_t_s, figures.parts_ms, "ms", "mean latency of the stages over time"
        )
    return drawn


def _stages(figures: CameraFigures) -> str:
    rows = []
    charts = []
    for k, stage in enumerate(STAGES):
        values_ns = figures.stage_ns[stage]
        kind = f"s{k}" if stage in PARTS else "total"
        name = stage.replace("_", " ")
        found = percentiles(values_ns)
        numbers = (found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms)
        cells = "".join(
            "<td>-</td>" if value is None else f"<td>{value:.2f}</td>" for value in numbers
        )
        mean = f"{values_ns.mean() / NS_PER_MS:.2f}" if found.count else "-"
        row_class = ' class="sum"' if stage == _TOTAL else ""
        rows.append(
            f'<tr{row_class}><td><span class="swatch '
            f'{kind}"></span>{name}</td><td>{found.count}</td>'
            f"<td>{mean}</td>{cells}</tr>"
        )
        if found.count:
            marks = [
                (n, v)
                for n, v in zip(("median", "95 %", "99 %"), numbers[:3], strict=True)
                if v is not None
            ]
            charts.append(
                f"<div><h4>{name}</h4>{histogram(values_ns / NS_PER_MS, kind, name, marks)}</div>"
            )
    head = (
        "<tr><th>stage</th><th>frames</th><th>mean</th><th>50 %</th><th>95 %</th><th>99 "
        "%</th><th>max</th></tr>"
    )
    return (
        f"<h3>Stages</h3><table>{head}{''.join(rows)}</table>"
        "<h3>How long each stage takes; lines at 50, 95 and 99 %</h3><div "
        f'class="grid3">{"".join(charts)}</div>'
    )


def _drops(head: CameraHead) -> str:
    named = [(f"not handed over: {reason}", count) for reason, count in head.dropped.items()]
    named += [(f"not sent to a reader: {reason}", count) for reason, count in head.unsent.items()]
    named = sorted(((n.replace("_", " "), c) for n, c in named if c), key=lambda pair: -pair[1])
    title = "<h3>Dropped since the start, by reason</h3>"
    if not named:
        return f"{title}<p>None.</p>"
    return title + bars(named, "dropped frames by reason")


def _warp(figures: CameraFigures) -> str:
    methods = ", ".join(f"{escape(name)}: {count}" for name, count in figures.methods.most_common())
    charts = [
        (
            "Prediction horizon: from the capture of the newest pose to the instant shown",
            figures.ahead_ms,
            "ms",
        ),
        ("Warp angle: from the pose rendered for to the pose shown", figures.angle_deg, "deg"),
        (
            "Warp in time: from the instant rendered for to the instant shown",
            figures.horizon_ms,
            "ms",
        ),
        ("Share of the picture that the rendered one covers", figures.valid, ""),
        ("Age of the newest inertial sample at the instant shown", figures.imu_age_ms, "ms"),
    ]
    drawn = "".join(
        f"<h3>{title}</h3>{timeline(figures.t_s, values, unit, title, height=150)}"
        for title, values, unit in charts
        if np.isfinite(values).any()
    )
    return f"<h3>Frames by method</h3><p>{methods}</p>{drawn}"


def _errors(errors: PredictionErrors | None) -> str:
    """Predicted poses against the measured ones of the same instants."""
    if errors is None:
        return ""
    charts = [
        ("Prediction error: position rendered for", errors.position_mm, "mm"),
        ("Prediction error: attitude rendered for", errors.angle_deg, "deg"),
        ("What is left after the warp: attitude shown", errors.shown_angle_deg, "deg"),
    ]
    return "".join(
        f"<h3>{title}: {np.median(values):.2f} {unit} (median), "
        f"{np.percentile(values, 95):.2f} (95 %)</h3>"
        f"{timeline(errors.t_s, values, unit, title, height=150)}"
        for title, values, unit in charts
    )
