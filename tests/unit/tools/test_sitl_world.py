"""The choices of ``vil-bridge sitl``.

The configuration that they make, and the words for those that do not fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vil_bridge.cli.main import app
from vil_bridge.config.load import load_text
from vil_bridge.core.errors import ConfigError
from vil_bridge.registry import resolve
from vil_simulation.sitl.options import SitlOptions
from vil_simulation.sitl.world import connections, sitl_bridge, sitl_data

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (
            {"program": "px4", "command": "px4 'x"},
            r"--command \"px4 'x\": No closing quotation\. Close the quote",
        ),
        ({"program": "betaflight", "indoors": True}, "--indoors is for px4 and ardupilot"),
        ({"program": "betaflight", "speed": 2.0}, "--speed is for px4 and ardupilot"),
        ({"program": "betaflight", "count": 2}, r"set command \(`vil-bridge sitl`: --command\)"),
        (
            {"program": "px4", "count": 2, "command": "px4", "folder": "x"},
            "px4_1 runs in x already.*write {vehicle}",
        ),
    ],
)
def test_choices_that_do_not_fit_are_refused_by_their_names(
    choices: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        sitl_bridge(SitlOptions(**choices))


@pytest.mark.parametrize(
    ("program", "rate_hz", "step_hz"),
    [
        ("px4", None, 1000),
        ("px4", 250, 1000),
        ("px4", 333, 1332),
        ("ardupilot", 500, 1500),
        ("ardupilot", 4000, 4000),
    ],
)
def test_steps_are_a_multiple_of_the_samples(
    program: Any, rate_hz: int | None, step_hz: int
) -> None:
    options = SitlOptions(program=program, rate_hz=rate_hz)
    assert sitl_data(options)["sources"]["sitl"]["step_hz"] == step_hz
    sitl_bridge(options)


def test_several_vehicles_have_ports_places_and_folders_each() -> None:
    options = SitlOptions(
        program="ardupilot", count=3, command="arducopter -I {instance}", folder="run/{instance}"
    )
    vehicles = sitl_data(options)["sources"]["sitl"]["vehicles"]
    assert [vehicle["p_m"][0] for vehicle in vehicles.values()] == [0.0, 2.0, 4.0]
    assert [vehicle["autopilot"]["instance"] for vehicle in vehicles.values()] == [0, 1, 2]
    assert "TCP 5770, 5772, 5773;" in connections(options)[1]
    sitl_bridge(options)


def test_indoors_motion_capture_takes_one_of_ardupilots_ports() -> None:
    options = SitlOptions(program="ardupilot", indoors=True)
    assert sitl_data(options)["sources"]["sitl"]["vehicles"]["ardupilot"]["autopilot"]["pose"] == {}
    assert "TCP 5760, 5763;" in connections(options)[0]
    sitl_bridge(options)


def test_the_printed_command_has_the_parameters_that_fit_the_vehicle() -> None:
    outdoors, *older = connections(SitlOptions(program="px4"))
    assert (
        "PX4_SIM_MODEL=none_iris PX4_PARAM_CA_ROTOR0_KM=0.136 PX4_PARAM_CA_ROTOR1_KM=0.136 "
        in outdoors
    )
    assert " PX4_PARAM_CA_ROTOR2_KM=-0.136 " in outdoors
    assert " PX4_PARAM_MC_YAWRATE_P=0.05 PX4_PARAM_MC_YAWRATE_I=0.02 " in outdoors
    assert " PX4_PARAM_SENS_GPS0_DELAY=111 " in outdoors, (
        "one more than the default, which PX4 takes for no value"
    )
    assert older == [
        "PX4 1.13 and before: PX4_SIM_MODEL=iris, and vil-bridge sitl px4 --print-parameters > "
        "ETC/init.d-posix/px4-rc.params"
    ]
    indoors = connections(SitlOptions(program="px4", indoors=True))[0]
    for words in (
        "EKF2_EV_CTRL=15",
        "EKF2_EV_DELAY=0",
        "EKF2_HGT_REF=3",
        "EKF2_GPS_CTRL=0",
        "SYS_HAS_MAG=0",
    ):
        assert f" PX4_PARAM_{words} " in indoors
    assert "SENS_GPS0_DELAY" not in indoors


def test_a_px4_that_the_bridge_starts_gets_them_too() -> None:
    options = SitlOptions(program="px4", command="px4 -i {instance}")
    vehicle = sitl_data(options)["sources"]["sitl"]["vehicles"]["px4"]
    environment = vehicle["autopilot"]["environment"]
    assert environment["PX4_SIM_MODEL"] == "none_iris"
    assert environment["PX4_PARAM_MC_YAWRATE_P"] == "0.05"
    ardupilot = sitl_data(SitlOptions(program="ardupilot", command="arducopter"))
    assert "environment" not in ardupilot["sources"]["sitl"]["vehicles"]["ardupilot"]["autopilot"]


def test_ardupilots_command_has_the_speed_of_the_bridge() -> None:
    slow, *_ = connections(SitlOptions(program="ardupilot"))
    fast, _, warning = connections(SitlOptions(program="ardupilot", speed=10.0))
    assert "--speedup" not in slow
    assert (
        "arducopter --model JSON:127.0.0.1 -I 0 --speedup 10 --defaults copter.parm,vehicle.parm;"
        in fast
    )
    assert "without its option --speedup 10" in warning


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["px4", "--indoors"],
            [
                "param set MC_YAWRATE_P 0.05",
                "param set EKF2_EV_CTRL 15",
                "param set EKF2_HGT_MODE 3",
            ],
        ),
        (["ardupilot"], ["ATC_RAT_YAW_P 0.05", "MOT_THST_HOVER 0.3", "GPS1_DELAY_MS 130"]),
        (
            ["ardupilot", "--indoors"],
            ["GPS1_TYPE 0", "SERIAL1_BAUD 921", "VISO_DELAY_MS 0", "EK3_SRC1_YAW 6"],
        ),
    ],
)
def test_parameters_are_printed_as_a_file(words: list[str], lines: list[str]) -> None:
    printed = CliRunner().invoke(app, ["sitl", *words, "--print-parameters"])
    assert printed.exit_code == 0
    assert set(lines) <= set(printed.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (
            ["betaflight"],
            "--print-parameters is for px4 and ardupilot: Betaflight needs none. Remove it",
        ),
        (["px4", "--command", "px4 'x"], "No closing quotation. Close the quote"),
        (["px4", "--count", "2", "--command", "px4", "--folder", "x"], "px4_1 runs in x already"),
    ],
)
def test_parameters_of_choices_that_do_not_fit_are_not_printed(
    words: list[str], refusal: str
) -> None:
    printed = CliRunner().invoke(app, ["sitl", *words, "--print-parameters"])
    assert printed.exit_code != 0
    assert not printed.stdout
    assert refusal in str(printed.exception)


def test_worlds_live_next_to_one_another() -> None:
    """Nobody reads their stream until a camera is added to what is printed, where it has its
    usual port.
    """
    options = SitlOptions(program="px4")
    assert sitl_bridge(options).stream.bind.endswith(":0")
    assert "stream" not in sitl_data(options)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["px4", "--speed", "4", "--rate-hz", "333"], SitlOptions("px4", speed=4.0, rate_hz=333)),
        (
            ["ardupilot", "--count", "3", "--indoors"],
            SitlOptions("ardupilot", count=3, indoors=True),
        ),
        (
            ["betaflight", "--command", "bf -x 'a b'"],
            SitlOptions("betaflight", command="bf -x 'a b'"),
        ),
    ],
)
def test_what_is_printed_is_what_the_command_runs(
    tmp_path: Path, words: list[str], options: SitlOptions
) -> None:
    """Apart from the stream's port, see above."""
    printed = CliRunner().invoke(app, ["sitl", *words, "--print-config"])
    assert printed.exit_code == 0
    file = tmp_path / "sitl.yaml"
    file.write_text(printed.stdout, encoding="utf-8")
    runs = sitl_bridge(options)
    # A file's paths begin at it.
    read = load_text(file.read_text(encoding="utf-8"), str(file), resolve=resolve)
    assert read.model_copy(update={"stream": runs.stream}) == runs
