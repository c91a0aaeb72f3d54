"""Files of settings as people have them: encodings, slips in JSON, autopilots.

Every error has its cure.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.common import data_dir
from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_bridge.runtime.exit_codes import Exit
from vil_simulation.airsim.settings import load_settings
from vil_simulation.airsim.standalone.world import autopilot_lines

_PX4 = {
    "VehicleType": "PX4Multirotor",
    "UseSerial": False,
    "UseTcp": True,
    "TcpPort": 4560,
    "LockStep": True,
}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty. Write {} for AirSim's defaults"),
        (b" \n", "is empty. Write {} for AirSim's defaults"),
        (b"null", "must be a JSON object, not NoneType. Write {}"),
        ('{"SimMode": "Car"}'.encode("utf-16"), "is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8"),
        (
            '{"SimMode": "Car"}'.encode("utf-16-le"),
            "is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8",
        ),
        (
            '{"SimMode": "Car"}'.encode("utf-16-be"),
            "is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8",
        ),
        (
            b'{\n "Vehicles": {"Caf\xe9": {}}}',
            "line 2, column 19: the byte 0xe9 is not UTF-8. Save the file as UTF-8",
        ),
        (b'{\n "ClockSpeed": 1,\n}', "line 3, column 1: not JSON"),
        (b'{\n "ClockSpeed": 1,\n}', "Remove the comma before the closing bracket"),
        (b'{"A": [1, 2, ]}', "Remove the comma before the closing bracket"),
        (b'{\n // speed\n "ClockSpeed": 1}', "Remove the comment: JSON has none"),
        (b'{"ClockSpeed": 1 /* speed */}', "Remove the comment: JSON has none"),
        (b"{'ClockSpeed': 1}", 'Write double quotes: "..."'),
        (b'{"LockStep": True}', "Write true, false or null"),
        (b'{"Recording": {"Folder": "C:\\data"}}', "Write / or \\\\ for a backslash in a path"),
        (b'{"Vehicles": {', "The text ends too early: add the missing quotes and brackets"),
        (b'"SimMode": "Car"', "Remove what follows the first object, or add the { at the start"),
        (b'{"A": 1 "B": 2}', "Put a comma between two entries"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"A": ' + b"9" * 5000 + b"}", "Write a shorter number"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_what_to_do(
    data: bytes, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as raised:
        load_settings(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert problem in str(raised.value)


def test_a_file_that_is_not_there_or_a_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.json: there is no such file\. Correct the path"):
        load_settings(tmp_path / "gone.json")
    with pytest.raises(ConfigError, match=r"is a folder\. Name the settings\.json in it"):
        load_settings(tmp_path)


def test_a_byte_order_mark_of_utf_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'\xef\xbb\xbf{"SimMode": "Car"}')
    assert load_settings(path).mode == "Car"


def test_files_of_people_are_read_as_their_readme_says() -> None:
    folder = data_dir("wild") / "airsim"
    legacy = load_settings(folder / "legacy_1_0.json")
    older = (
        "is a key of settings of version 1.0. Write CameraDefaults.CaptureSettings, with an "
        "entry for each ImageType"
    )
    assert f"SceneCaptureSettings: {older}" in legacy.ignored
    (line,) = autopilot_lines(load_settings(folder / "px4_tcp.json"), "blocks")
    assert (
        line.startswith("Vehicles.PX4: px4 is not connected;")
        and "vil-bridge sitl px4 --count 1" in line
    )
    with pytest.raises(
        ConfigError, match=r"SimMode: 'multirotor' has the wrong case\. Write Multirotor"
    ):
        load_settings(folder / "simmode_lower.json")


@pytest.mark.parametrize(
    ("vehicles", "speed", "line"),
    [
        (
            {"PX4": _PX4},
            1,
            "Vehicles.PX4: px4 is not connected; simple_flight flies here. "
            "To connect it: vil-bridge sitl px4 --count 1 --scene empty",
        ),
        (
            {"A": {"VehicleType": "ArduCopter"}, "B": {"VehicleType": "ArduCopterSolo"}, "C": {}},
            2,
            "Vehicles.A, Vehicles.B: ardupilot is not connected; simple_flight flies here. "
            "To connect it: vil-bridge sitl ardupilot --count 2 --scene empty --speed 2",
        ),
    ],
)
def test_the_command_that_connects_an_autopilot_is_named(
    vehicles: dict[str, dict[str, object]], speed: float, line: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"ClockSpeed": speed, "Vehicles": vehicles}))
    # An address that the network reaches is refused, so that the bridge does not start.
    found = CliRunner().invoke(app, ["airsim", str(path), "--scene", "empty", "--bind", "0.0.0.0"])
    assert isinstance(found.exception, ConfigError)
    assert f"settings: {line}\n" in found.stdout
    command = line.split("vil-bridge ")[1].split()
    assert CliRunner().invoke(app, [*command, "--print-config"]).exit_code == Exit.OK
