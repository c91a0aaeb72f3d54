"""A recording replays with its own configuration, without what it published and captured."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vil_bridge.assembly.recorded import recorded_config, replay_config
from vil_bridge.recording.reader import Recording

RECORDED = """
version: 1
rooms: {hall: {}, far: {}}
sources:
  lab: {type: motion-file, path: flight.txt, room: hall, faults: loss=1%}
  far: {type: federation, room: far, site: far, address: "tcp://127.0.0.1:5570"}
actors: {drone: {kind: vehicle, source: lab, subject: drone}}
renderers: {unity: {type: flightgoggles}}
cameras: {front: {renderer: unity, modalities: [rgb, depth], latency_compensation: depth,
    artificial_delay_ms: 30}}
federation: {site: here, actors: [drone]}
debug: {packet_capture: captures}
"""


def recording() -> Recording:
    names = {
        "config_text": RECORDED,
        "changes": (),
        "version": "0.1.0",
        "path": Path("old.mcap"),
        "sources": ("lab",),
    }
    return cast(Recording, SimpleNamespace(**names))


def test_the_configuration_of_a_recording_is_read_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    config = recorded_config(recording())
    lab: Any = config.sources["lab"]
    assert (lab.type, lab.faults, config.sources["far"].type) == (
        "motion-file",
        "loss=1%",
        "federation",
    )
    assert (config.federation.site, config.debug.packet_capture) == ("here", Path("captures"))
    assert config.cameras["front"].latency_compensation == "depth"
    assert caplog.records == []


def test_a_replay_takes_over_neither_publishing_nor_captures() -> None:
    config = replay_config(recording(), rate=1.0, loop=False)
    assert [source.type for source in config.sources.values()] == ["replay", "federation"]
    assert (config.federation.site, config.debug.packet_capture) == ("lab", None)
    assert config.cameras["front"].artificial_delay_ms == 30.0
