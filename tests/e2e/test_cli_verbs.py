"""The command line as people run it: output and exit codes of real processes."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

from tests.support.common import ROOT
from tests.support.programs import VIL_BRIDGE, output, run
from vil_bridge import __version__
from vil_bridge.cli.main import app, main
from vil_bridge.config.presets import preset_names, preset_text
from vil_bridge.runtime.exit_codes import Exit

PRESET = ROOT / "configs" / "two_rooms.yaml"


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def vil_bridge(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command within this process, in a wide terminal, with ``env`` as its only VIL_
    variables.
    """

    def run(*arguments: str, env: dict[str, str] | None = None) -> Done:
        for key in [key for key in os.environ if key.startswith("VIL_")]:
            monkeypatch.delenv(key)
        for key, value in {"COLUMNS": "200", **(env or {})}.items():
            monkeypatch.setenv(key, value)
        monkeypatch.setattr(sys, "argv", ["vil-bridge", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return Done(int(end.value.code or 0), *capsys.readouterr())

    return run


def process(*arguments: str, env: dict[str, str] | None = None) -> Done:
    """Run the command as a process of its own."""
    done = run(*VIL_BRIDGE, *arguments, env=env)
    return Done(done.returncode, done.stdout, done.stderr)


def test_the_exit_codes_are_the_promised_ones() -> None:
    assert {code.name: code.value for code in Exit} == {
        "OK": 0,
        "BUG": 1,
        "CONFIG": 2,
        "CHECK_FAILED": 3,
        "LOST_SOURCE": 4,
    }


@pytest.mark.process
def test_version_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['vil-bridge', 'version']\n"
        "from vil_bridge.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "print([m for m in ('fastapi', 'cv2', 'zmq', 'numpy', "
        "'vil_bridge.daemon.bridge') if m in sys.modules])"
    )
    first, end, heavy = output(sys.executable, "-c", code).splitlines()
    assert first.startswith(f"vil-bridge {__version__} (Python 3.")
    assert (end, heavy) == ("0", "[]")


def test_check_of_a_good_file(vil_bridge: Run) -> None:
    done = vil_bridge("check", str(PRESET))
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    assert done.stdout.startswith(f"{PRESET} is good (sha256 ")
    assert (
        "  sources: motive-flight (optitrack), motive-actor (optitrack), imu (mavlink-imu)\n"
        in done.stdout
    )
    assert (
        "  known source types: federation, mavlink-imu, mavlink-vehicle, motion-file, msp-imu, "
        in done.stdout
    )


@pytest.mark.process
def test_check_of_a_bad_file_prints_every_problem_and_nothing_else(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden" / "config"
    bad = tmp_path / "many.yaml"
    bad.write_bytes((golden / "many.yaml").read_bytes())
    done = process("check", str(bad))
    assert (done.returncode, done.stdout) == (Exit.CONFIG, "")
    assert done.stderr.replace(f"{tmp_path}/", "") == (golden / "many.txt").read_text()


def test_run_refuses_a_bad_configuration_before_anything_starts(vil_bridge: Run) -> None:
    done = vil_bridge("run", str(PRESET), "--set", "http.port=none")
    assert (done.returncode, done.stdout) == (Exit.CONFIG, "")
    assert done.stderr == "--set http.port: http.port: should be a valid integer, got 'none'\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("section", "place"),
    [
        (
            "renderers: {{unity: {{type: flightgoggles, pose_port: {port}, image_port: 0}}}}",
            "renderers.unity: ",
        ),
        ('stream: {{bind: "tcp://127.0.0.1:{port}"}}', "stream.bind: "),
    ],
)
def test_a_port_that_another_has_is_named_with_its_place_and_the_cure(
    section: str, place: str, tmp_path: Path
) -> None:
    stream = "" if "stream" in section else 'stream: {bind: "tcp://127.0.0.1:0"}'
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = tmp_path / "lab.yaml"
        text = section.format(port=taken.getsockname()[1])
        file.write_text(
            f"version: 1\nhttp: {{port: 0}}\nrealtime: {{fifo_priority: 0}}\n{stream}\n{text}\n"
        )
        done = process("run", str(file))
    assert done.returncode not in (0, 1)
    assert place in done.stderr
    assert done.stderr.count("Address already in use") == 1
    assert (
        "is another bridge running? `vil-bridge doctor CONFIG` names the program that has it"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_the_effective_configuration_has_every_default_and_override(vil_bridge: Run) -> None:
    done = vil_bridge(
        "check",
        str(PRESET),
        "--effective",
        "--set",
        "http.port=0",
        env={"VIL_NAME__X": "", "VIL_X": "1"},
    )
    assert done.returncode == Exit.CONFIG  # VIL_NAME__X means name.x, which cannot be
    done = vil_bridge(
        "check",
        str(PRESET),
        "--effective",
        "--set",
        "http.port=0",
        env={"VIL_HTTP__BIND": "localhost"},
    )
    effective = yaml.safe_load(done.stdout)
    unset: dict[str, object] = {
        "token_file": None,
        "tls_certificate": None,
        "tls_key": None,
        "hosts": [],
        "scene": None,
    }
    assert effective["http"] == {"insecure": False, "bind": "localhost", "port": 0, **unset}
    assert effective["cameras"]["observer"]["max_age_ms"] == 500.0
    assert effective["sources"]["motive-actor"]["up_axis"] == "y"


def test_an_absent_file_and_wrong_usage_are_exit_2(vil_bridge: Run) -> None:
    absent = vil_bridge("check", "none.yaml")
    assert (absent.returncode, absent.stderr) == (
        Exit.CONFIG,
        "none.yaml: cannot be read: No such file or directory\n",
    )
    unknown = vil_bridge("soar")
    assert unknown.returncode == Exit.CONFIG
    assert "No such command 'soar'" in unknown.stderr


def test_init_prints_presets(vil_bridge: Run) -> None:
    listing = vil_bridge("init")
    assert [line.split()[0] for line in listing.stdout.splitlines()] == preset_names()
    preset = vil_bridge("init", "lab_optitrack")
    assert (preset.returncode, preset.stdout) == (Exit.OK, preset_text("lab_optitrack"))
    wrong = vil_bridge("init", "lab_optitrak")
    assert wrong.returncode == Exit.CONFIG
    assert wrong.stderr.endswith("(did you mean 'lab_optitrack'?)\n")


def test_the_version_is_a_flag_and_a_verb(vil_bridge: Run) -> None:
    flag = vil_bridge("--version")
    assert flag.returncode == Exit.OK
    assert flag.stdout.startswith(f"vil-bridge {__version__} ")
    assert flag == vil_bridge("version")


@pytest.mark.process
def test_the_shell_completes_verbs_and_options() -> None:
    asked = {
        "_VIL_BRIDGE_COMPLETE": "complete_bash",
        "COMP_WORDS": "vil-bridge re",
        "COMP_CWORD": "1",
    }
    command = "import sys; sys.argv[0] = 'vil-bridge'; from vil_bridge.cli.main import main; main()"
    done = run(sys.executable, "-c", command, env=asked)
    assert set(done.stdout.split()) == {"record", "renderer", "replay", "report"}


def test_schema_is_json_that_names_the_plugins(vil_bridge: Run) -> None:
    done = vil_bridge("schema")
    assert done.returncode == Exit.OK
    schema = json.loads(done.stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {"OptitrackConfig", "MavlinkImuConfig", "FlightGogglesConfig"} <= set(schema["$defs"])


@pytest.mark.parametrize("verb", ["run", "check", "init", "schema", "renderer", "version"])
def test_every_verb_explains_itself(vil_bridge: Run, verb: str) -> None:
    done = vil_bridge(verb, "--help")
    assert done.returncode == Exit.OK
    assert f"vil-bridge {verb}" in done.stdout or f"vil_bridge {verb}" in done.stdout


@pytest.mark.parametrize("dash", ["-", "--"])
def test_the_renderer_takes_the_originals_spelling(dash: str) -> None:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    verb = command.commands["renderer"]
    words = {
        "client-ip": "10.0.0.5",
        "input-port": "20000",
        "output-port": "20001",
        "scene": "empty",
    }
    arguments = [word for name, value in words.items() for word in (dash + name, value)]
    told = {"client_ip": "10.0.0.5", "input_port": 20000, "output_port": 20001, "scene": "empty"}
    assert (
        verb.make_context("renderer", arguments).params
        == verb.make_context("renderer", []).params | told
    )


@pytest.mark.process
def test_a_renderer_without_its_extra_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "moderngl.py").write_text("raise ModuleNotFoundError(name='moderngl')\n")
    done = process("renderer", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == Exit.CHECK_FAILED
    assert "pip install '.[gl]'" in done.stderr


@pytest.mark.process
def test_a_bug_is_exit_1_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise RuntimeError('a bug')\n")
    done = process("check", str(PRESET), env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == Exit.BUG
    assert done.stderr.startswith("Traceback") and done.stderr.endswith("RuntimeError: a bug\n")
