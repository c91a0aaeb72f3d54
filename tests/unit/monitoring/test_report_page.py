"""The report: figures against the rows, a page that is whole in itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.support.ledger import flown_ledger
from vil_bridge.monitoring.frame_records import PARTS, STAGES, CameraLedger
from vil_bridge.monitoring.report.figures import figures_of
from vil_bridge.monitoring.report.page import report_page
from vil_bridge.monitoring.report.svg_charts import bars, histogram, stack, timeline


def charts_of(page: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_figures_are_the_rows() -> None:
    ledger = flown_ledger()
    figures = figures_of(ledger)
    assert figures.t_s[0] == 0
    assert len(figures.t_s) == 600
    assert np.isfinite(figures.total_ms).sum() == len(figures.parts_t_s) == 540
    assert (figures.unreported, figures.never_sent) == (60, 0)
    together = np.sum(list(figures.parts_ms.values()), axis=0)
    np.testing.assert_allclose(
        together, figures.total_ms[np.isfinite(figures.total_ms)], rtol=1e-12
    )
    (gap,) = figures.gaps
    assert gap.missing == 9
    assert gap.end_s - gap.begin_s == pytest.approx(10 / 60)
    assert figures.methods == {"compensated: homography, inertial": 600}
    first = ledger.rows[0]
    assert first.stamps.capture is not None
    assert figures.ahead_ms[0] == (first.t_display_ns - first.stamps.capture) / 1e6
    assert figures.angle_deg[3] == pytest.approx(
        np.degrees(ledger.rows[3].compensation["angle_rad"])
    )


def test_the_page_says_every_stage_gap_and_drop() -> None:
    ledger = flown_ledger()
    page = report_page([ledger])
    for stage in STAGES:
        assert f"{stage.replace('_', ' ')}</td><td>" in page
    assert "600 frames in 10.1 s, 59.1 Hz of 60 asked; 540 with the whole way" in page
    assert "9 missing after" in page
    assert "not handed over: renderer busy" in page
    assert "not sent to a reader: superseded" in page
    assert "not handed over: superseded" not in page  # none were
    total_ms = figures_of(ledger).total_ms
    known = np.sort(total_ms[np.isfinite(total_ms)])
    assert (
        f"Glass to glass {known[269]:.1f} (median), {known[512]:.1f} (95 %), "
        f"{known[-1]:.1f} (longest)" in page
    )
    assert len(charts_of(page)) == 2 + len(STAGES) + 1 + 5


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {"src", "href", "onclick", "onload"} & {name for name, _ in attrs}
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_in_itself_and_escapes_names() -> None:
    ledger = flown_ledger(30)
    ledger.head.camera = "<script>alert(1)</script>"
    ledger.head.dropped = {"<b>": 3}
    ledger.rows[0].compensation["method"] = "<i>"
    page = report_page([ledger])
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "link", "img", "iframe", "b", "i"} & tags.seen
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page


def test_a_camera_slower_than_asked_has_no_gap_in_every_frame() -> None:
    ledger = flown_ledger(rate_hz=30.0)
    ledger.head.rate_hz = 90.0
    (gap,) = figures_of(ledger).gaps
    assert gap.missing == 9
    assert figures_of(CameraLedger(ledger.head, ledger.rows[:1])).gaps == ()


def test_little_to_tell() -> None:
    assert "The ledger holds no camera" in report_page([])
    ledger = flown_ledger(1)
    assert "the camera has no reader" in report_page([CameraLedger(ledger.head, [])])
    ledger.rows[0].stamps.received = None
    ledger.rows[0].compensation.clear()
    page = report_page([ledger])
    assert "No frame was reported back" in page
    assert "<p>compensated: 1</p>" in page


def test_the_stack_of_means_is_as_high_as_the_mean_of_the_totals() -> None:
    figures = figures_of(flown_ledger())
    chart = ET.fromstring(stack(figures.parts_t_s, figures.parts_ms, "ms", "x"))
    columns: dict[str, float] = {}
    for rect in chart.iter("{http://www.w3.org/2000/svg}rect"):
        value = float((rect[0].text or "").split(": ")[1].split()[0])
        columns[rect.attrib["x"]] = columns.get(rect.attrib["x"], 0.0) + value
    whole = figures.total_ms[np.isfinite(figures.total_ms)]
    first = whole[figures.parts_t_s < figures.parts_t_s[-1] / 94]
    assert next(iter(columns.values())) == pytest.approx(first.mean(), abs=0.04)
    assert len(PARTS) == 7


def test_dots_bars_and_bands_are_where_the_values_are() -> None:
    chart = ET.fromstring(
        timeline(
            np.array([0.0, 1.0, 2.0]), np.array([0.0, np.nan, 5.0]), "ms", "x", gaps=[(0, 1, "g")]
        )
    )
    svg = "{http://www.w3.org/2000/svg}"
    dots = next(p for p in chart.iter(f"{svg}path") if p.attrib["class"] == "dots few").attrib["d"]
    (x0, y0), (x2, y2) = [
        tuple(map(float, dot.split())) for dot in re.findall(r"M([\d. ]+)h0", dots)
    ]
    assert x0 == 52
    assert x2 == 928
    assert y2 < y0 == 184
    band = next(chart.iter(f"{svg}rect"))
    assert float(band.attrib["width"]) == pytest.approx((x2 - x0) / 2)
    counted = ET.fromstring(
        histogram(np.array([1.0, 1.0, 9.0]), "s0", "x", [("median", 1.0), ("99 %", 9.0)])
    )
    counts = [int((r[0].text or "").rsplit(" ", 1)[1]) for r in counted.iter(f"{svg}rect")]
    assert counts == [2, 1]
    widths = [
        float(r.attrib["width"])
        for r in ET.fromstring(bars([("a", 10), ("b", 5)], "x")).iter(f"{svg}rect")
    ]
    assert widths[0] == 2 * widths[1]
