"""The metrics of a bridge, read with Prometheus' own parser; and the logs."""

from __future__ import annotations

import functools
import json
import logging
import re

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.support.sample_snapshot import NOW_NS, sample_snapshot
from vil_bridge.monitoring.logging_setup import setup_logging
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.web.schemas.status import BridgeStatus

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(snapshot: BridgeSnapshot) -> Samples:
    text = generate_latest(metrics_registry(lambda: snapshot)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_promised_names_have_the_snapshots_values() -> None:
    found = scrape(sample_snapshot())
    flight = (("source", "motive-flight"),)
    assert found["vil_build_info", (("version", "0.1.0"),)] == 1
    assert found["vil_ready", ()] == 0
    assert found["vil_event_loop_lag_seconds", ()] == pytest.approx(0.00031)
    assert found["vil_source_frames_total", flight] == 894_312
    assert found["vil_source_gap_frames_total", flight] == 7
    assert found["vil_source_bad_datagrams_total", flight] == 1
    assert found["vil_clock_offset_seconds", flight] == pytest.approx(-123.456789012)
    assert found["vil_body_age_seconds", (("body", "drone"),)] == pytest.approx(0.0078)
    assert found["vil_body_state", (("body", "walker"), ("state", "coasting"))] == 1
    assert found["vil_body_state", (("body", "walker"), ("state", "tracked"))] == 0
    assert found["vil_render_inflight", (("renderer", "unity"),)] == 1
    assert found["vil_warp_angle_radians", (("camera", "front"),)] == pytest.approx(0.031)
    assert found["vil_stream_frames_total", (("stream", "front"),)] == 985
    assert found["vil_stream_dropped_total", (("reason", "superseded"), ("stream", "front"))] == 12


def test_latency_is_a_histogram_per_stage_and_camera() -> None:
    found = scrape(sample_snapshot())
    labels = (("camera", "front"), ("stage", "request_to_image"))
    buckets = {
        dict(key[1])["le"]: value
        for key, value in found.items()
        if key[0] == "vil_stage_latency_seconds_bucket" and set(labels) <= set(key[1])
    }
    assert buckets["0.016777216"] == 0
    assert buckets["0.033554432"] == 3
    assert buckets["+Inf"] == 3
    assert found["vil_stage_latency_seconds_count", labels] == 3
    assert found["vil_stage_latency_seconds_sum", labels] == pytest.approx(0.073)


def test_what_is_unknown_has_no_sample() -> None:
    names = {
        key
        for key in scrape(sample_snapshot())
        if key[1] in ((("body", "gate"),), (("source", "imu"),))
    }
    assert ("vil_body_age_seconds", (("body", "gate"),)) not in names
    assert ("vil_source_age_seconds", (("source", "imu"),)) not in names
    assert ("vil_clock_offset_seconds", (("source", "imu"),)) not in names
    assert ("vil_source_frames_total", (("source", "imu"),)) in names


def test_names_follow_the_conventions() -> None:
    text = generate_latest(metrics_registry(sample_snapshot)).decode()
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("vil_") and family.documentation
        assert not re.search(r"_(ms|ns|us|mm|deg|hz)(_total)?$", family.name), family.name
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)


def test_openmetrics_and_an_empty_bridge_parse_too() -> None:
    empty = BridgeStatus(NOW_NS, "empty", "0.1.0", 1.0, ready=True)
    assert scrape(empty)["vil_ready", ()] == 1
    for snapshot in (empty, sample_snapshot()):
        registry = metrics_registry(functools.partial(lambda s: s, snapshot))
        text = openmetrics.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
        assert list(parse_openmetrics(text))  # type: ignore[no-untyped-call]


def test_logs_are_json_lines_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        setup_logging(json_lines=True)
        logging.getLogger("vil.test").warning("dropped %d of %s", 3, "é")
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger("vil.test").exception("failed")
        setup_logging(level=logging.WARNING)
        logging.getLogger("vil.test").info("unseen")
        logging.getLogger("vil.test").error("plain")
        logging.getLogger("vil.test").error(
            "a body named %s", "\x1b[2J\u009bfake\n2026-01-01 ERROR forged"
        )
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    first, second, third, fourth, fifth = capsys.readouterr().err.splitlines()
    assert (
        json.loads(first).items()
        >= {"level": "WARNING", "logger": "vil.test", "message": "dropped 3 of é"}.items()
    )
    assert "ValueError: why" in json.loads(second)["exception"]
    assert third.endswith("ERROR   vil.test: plain")
    assert (
        fourth.endswith(r"a body named \x1b[2J\x9bfake") and fifth == "    2026-01-01 ERROR forged"
    ), "a peer's words"
