"""Old names of the configuration.

Accepted for one version, each with a warning that gives the new name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.common import ROOT
from vil_bridge.config.load import load, load_text
from vil_bridge.config.presets import preset_names, preset_text
from vil_bridge.config.renamed import KEYS, VALUES, with_current_names
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.registry import plugin_names, resolve

LOG = "vil_bridge.config.load"
OLD_PRESETS = ROOT / "tests/golden/config/old"
EVERY_OLD_NAME = """\
version: 1
rooms: {hall: {}, far: {}}
sources:
  lab: {type: optitrack, room: hall, inject: loss=1%, template: anna.yaml}
  far: {type: remote, room: far, site: far, address: "tcp://127.0.0.1:5570"}
  file: {type: recording, path: flight.txt}
  day: {type: mcap, path: flight.mcap, room: hall}
actors:
  drone: {kind: vehicle, source: lab, subject: drone}
renderers: {unity: {type: flightgoggles}}
cameras:
  front:
    renderer: unity
    modalities: [rgb, depth]
    compensate: reproject
    extra_delay_ms: 30
    extra_jitter_ms: 10
publish: {site: here, actors: [drone]}
debug: {capture: captures}
"""
SAYS = [
    (4, "sources.lab.inject", "the key 'inject' is now 'faults'"),
    (4, "sources.lab.template", "the key 'template' is now 'marker_template'"),
    (5, "sources.far.type", "the value 'remote' is now 'federation'"),
    (6, "sources.file.type", "the value 'recording' is now 'motion-file'"),
    (7, "sources.day.type", "the value 'mcap' is now 'replay'"),
    (15, "cameras.front.compensate", "the key 'compensate' is now 'latency_compensation'"),
    (15, "cameras.front.latency_compensation", "the value 'reproject' is now 'depth'"),
    (16, "cameras.front.extra_delay_ms", "the key 'extra_delay_ms' is now 'artificial_delay_ms'"),
    (
        17,
        "cameras.front.extra_jitter_ms",
        "the key 'extra_jitter_ms' is now 'artificial_jitter_ms'",
    ),
    (18, "publish", "the key 'publish' is now 'federation'"),
    (19, "debug.capture", "the key 'capture' is now 'packet_capture'"),
]
OLD_IN_PRESETS = {
    "demo": {"compensate", "extra_delay_ms", "extra_jitter_ms"},
    "two_hosts_actor": {"remote", "publish"},
    "two_hosts_flight": {"remote", "publish"},
    "two_rooms": {
        "inject",
        "template",
        "compensate",
        "extra_delay_ms",
        "extra_jitter_ms",
        "publish",
        "capture",
    },
}


def written(folder: Path, text: str) -> Path:
    path = folder / "old.yaml"
    path.write_text(text)
    return path


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOG]


def read(path: Path, *sets: str, env: dict[str, str] | None = None) -> BridgeConfig:
    return load(path, sets=sets, env=env or {}, resolve=resolve)


def test_every_old_name_is_accepted_and_named_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, EVERY_OLD_NAME)
    config = read(path)
    lab: Any = config.sources["lab"]
    front = config.cameras["front"]
    assert (lab.faults, lab.marker_template) == ("loss=1%", tmp_path / "anna.yaml")
    assert [source.type for source in config.sources.values()] == [
        "optitrack",
        "federation",
        "motion-file",
        "replay",
    ]
    assert (front.latency_compensation, front.artificial_delay_ms, front.artificial_jitter_ms) == (
        "depth",
        30.0,
        10.0,
    )
    assert (config.federation.site, config.debug.packet_capture) == ("here", tmp_path / "captures")
    said = warnings_of(caplog)
    assert len(said) == len(SAYS) == len(KEYS) + len(VALUES)
    for line, (number, key, text) in zip(said, SAYS, strict=True):
        assert line.startswith(f"{path}:{number}:"), line
        assert line.endswith(f": {key}: {text}; the old name works in this version only"), line
    read(path)
    assert len(warnings_of(caplog)) == len(SAYS), "each is logged once"


@pytest.mark.parametrize("row", KEYS, ids=lambda row: row.old)
def test_an_old_and_a_new_key_together_are_an_error(tmp_path: Path, row: Any) -> None:
    old = next(line for line in EVERY_OLD_NAME.splitlines() if row.old in line)
    value = "{}" if row.old == "publish" else "0"
    twice = f"{row.new}: {value}\n" if row.old == "publish" else ""
    text = EVERY_OLD_NAME
    if not twice:
        both = old.replace(f"{row.old}:", f"{row.new}: {value}, {row.old}:", 1)
        if "{" not in old:
            both = old.replace(f"{row.old}:", f"{row.new}: {value}\n    {row.old}:", 1)
        text = text.replace(old, both)
    with pytest.raises(
        ConfigError, match=f"is the old name of '{row.new}', which is given too: remove it"
    ):
        read(written(tmp_path, text + twice))


def test_overrides_take_old_names_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, EVERY_OLD_NAME)
    config = read(
        path,
        "sources.lab.inject=loss=7%",
        "cameras.front.compensate=reproject",
        "publish={site: there}",
        env={"VIL_DEBUG__CAPTURE": "elsewhere", "VIL_CAMERAS__FRONT__EXTRA_DELAY_MS": "40"},
    )
    lab: Any = config.sources["lab"]
    assert lab.faults == "loss=7%"
    assert config.cameras["front"].latency_compensation == "depth"
    assert config.cameras["front"].artificial_delay_ms == 40.0
    assert (config.federation.site, config.debug.packet_capture) == (
        "there",
        tmp_path / "elsewhere",
    )
    assert (
        "--set sources.lab.inject: the key 'inject' is now 'faults'; the old name works "
        "in this version only" in (warnings_of(caplog))
    )


def test_a_new_key_overrides_an_old_one_of_the_file(tmp_path: Path) -> None:
    lab: Any = read(written(tmp_path, EVERY_OLD_NAME), "sources.lab.faults=loss=8%").sources["lab"]
    assert lab.faults == "loss=8%"


def test_what_a_recording_holds_is_read_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    config = load_text(EVERY_OLD_NAME, "old.mcap (its configuration)", resolve=resolve)
    assert config.federation.site == "here" and config.sources["day"].type == "replay"
    assert warnings_of(caplog) == []


def test_plain_data_gets_the_current_names_and_the_given_stays() -> None:
    given = {
        "sources": {"a": {"type": "mcap", "inject": ""}},
        "publish": {"site": "x"},
        "cameras": None,
    }
    assert with_current_names(given) == {
        "sources": {"a": {"type": "replay", "faults": ""}},
        "federation": {"site": "x"},
        "cameras": None,
    }
    assert given["sources"] == {"a": {"type": "mcap", "inject": ""}}


@pytest.mark.parametrize("name", preset_names())
def test_an_old_preset_loads_and_its_old_keys_are_named(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text((OLD_PRESETS / path.name).read_text())
    config = read(path)
    said = warnings_of(caplog)
    named = {
        row.old
        for row in (*KEYS, *VALUES)
        if any(f" {row.old!r} is now {row.new!r};" in line for line in said)
    }
    assert named == OLD_IN_PRESETS.get(name, set())
    assert all(line.startswith(f"{path}:") for line in said)
    caplog.clear()
    path.write_text(preset_text(name))
    new = read(path)
    assert config.model_dump(mode="json") == new.model_dump(mode="json"), (
        "the presets say the same by the new names"
    )


def test_no_old_type_is_known_any_more() -> None:
    assert not {row.old for row in VALUES} & set(plugin_names("sources"))


def test_the_presets_have_current_names_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in preset_names():
        read(written(tmp_path, preset_text(name)))
    assert warnings_of(caplog) == []


def test_the_page_lists_every_old_name() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text()
    for row in KEYS:
        section = "top level" if not row.path else f"`{row.path[0]}`"
        assert f"| {section} | `{row.old}` | `{row.new}` |" in page
    for row in VALUES:
        assert f": {row.old}` |" in page and f": {row.new}` |" in page
