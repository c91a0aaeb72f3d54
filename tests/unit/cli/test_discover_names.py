"""What discover writes is a configuration, whatever servers call themselves and their bodies."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from vil_bridge.config.load import load
from vil_bridge.interfaces.ports import FoundSource
from vil_bridge.registry import resolve
from vil_bridge.setup.discovery import (
    Search,
    as_config,
    as_json,
    as_yaml,
    config_name,
    serial_devices,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("drone", "drone"),
        ("CF 1", "cf-1"),
        ("Ångström", "angstrom"),
        ("7up", "n7up"),
        ("_hidden", "n-hidden"),
        ("***", "body"),
        ("无人机", "body"),
        ("world", "world-2"),
        ("x" * 300, "x" * 60),
        ("a\nb: {c}", "a-b-c"),
    ],
)
def test_names_become_names_of_the_configuration(text: str, name: str) -> None:
    assert config_name(text, ()) == name


def test_taken_names_are_numbered() -> None:
    taken: list[str] = []
    for text in ("CF", "cf", "Cf", "cf-2"):
        taken.append(config_name(text, taken))
    assert taken == ["cf", "cf-2", "cf-3", "cf-2-2"]


NASTY = Search(
    (
        FoundSource(
            "optitrack",
            {"server": "127.0.0.1", "command_port": 1510},
            "Motive\n3.1: # {evil}\x1b[31m",
            (
                ("cf1", 239.96),
                ("CF1", None),
                ("on", 1.0),
                ("a: b # c", 2.0),
                ("null", 3.0),
                ("", 4.0),
                ("x" * 300, 5.0),
            ),
            (("Actor", 60.0), ("Åsa Ö", None), ("line\nbreak", 1.0)),
        ),
        FoundSource(
            "vrpn", {"server": "127.0.0.1", "port": 3883}, "VRPN server 07.35", (("cf1", 100.0),)
        ),
        FoundSource("optitrack", {"server": "10.0.0.2"}, "Motive 2.1"),
    ),
    ("optitrack", "qualisys", "vrpn"),
    {"qualisys": "pip install\nsomething"},
    ("/dev/ttyACM0",),
)


def test_what_is_printed_is_a_good_configuration(tmp_path: Path) -> None:
    text = as_yaml(NASTY)
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    config = load(path, env={}, resolve=resolve)
    assert list(config.sources) == ["optitrack", "vrpn", "optitrack-2"]
    assert list(config.rooms) == ["room", "room-2", "room-3"]
    bound = {name: (a.source, a.subject, a.kind.value) for name, a in config.actors.items()}
    assert bound["cf1"] == ("optitrack", "cf1", "vehicle")
    assert bound["cf1-2"] == ("optitrack", "CF1", "vehicle")
    assert bound["cf1-3"] == ("vrpn", "cf1", "vehicle")
    assert bound["actor"] == ("optitrack", "Actor", "human")
    assert ("optitrack", "line\nbreak", "human") in bound.values()
    assert len(bound) == 9, "a name that no configuration may hold is left out"
    assert {name: camera.actor for name, camera in config.cameras.items()} == {"front": "cf1"}
    assert list(config.renderers) == [config.cameras["front"].renderer]
    assert "# Motive?3.1: # {evil}?[31m (optitrack: server 127.0.0.1, command_port 1510)\n" in text
    assert "#   body     cf1                      240.0 Hz\n" in text
    assert "#   body     CF1                      rate unknown\n" in text
    assert "#   skeleton Actor                    60.0 Hz\n" in text
    assert "#   no bodies: define a rigid body" in text
    assert "# serial device /dev/ttyACM0\n" in text
    assert "# left out: qualisys: pip install?something\n" in text


def test_json_holds_the_same(tmp_path: Path) -> None:
    told = as_json(NASTY)
    assert told["config"] == as_config(NASTY.found) == yaml.safe_load(as_yaml(NASTY))
    assert told["found"][0]["bodies"][0] == {"name": "cf1", "rate_hz": 239.96}
    assert told["failed"] == {"qualisys": "pip install\nsomething"}


def test_serial_lines_are_named_once_and_by_what_stays(tmp_path: Path) -> None:
    (tmp_path / "serial" / "by-id").mkdir(parents=True)
    for name in ("ttyACM0", "ttyUSB3", "tty1"):
        (tmp_path / name).touch()
    lasting = tmp_path / "serial" / "by-id" / "usb-PX4_FMU"
    lasting.symlink_to("../../ttyACM0")
    assert serial_devices(tmp_path) == [str(lasting), str(tmp_path / "ttyUSB3")]
    assert serial_devices(tmp_path / "none") == []
