"""Mistakes of a first configuration: each is refused in words that name the cure."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.common import data_dir
from vil_bridge import registry
from vil_bridge.cli.main import app
from vil_bridge.config.load import load
from vil_bridge.config.presets import preset_text
from vil_bridge.core.errors import ConfigError
from vil_bridge.daemon.subject_check import NOT_HUMAN
from vil_bridge.setup.doctor.needs import needs_of

LOOPBACK = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))


def problems_of(folder: Path, *sets: str) -> list[str]:
    path = folder / "lab.yaml"
    path.write_text(preset_text("lab_optitrack"))
    with pytest.raises(ConfigError) as caught:
        load(path, sets=sets, env={}, resolve=registry.resolve, find_inputs=True)
    return caught.value.problems


@pytest.mark.parametrize(
    ("key", "value", "cure"),
    [
        (
            "sources.motive.server",
            "192.168.0.300",
            "is not an address. Write four numbers from 0 to 255",
        ),
        (
            "sources.motive.server",
            "192.168.1",
            "is not an address. Write four numbers from 0 to 255",
        ),
        ("sources.motive.server", "my motive pc", "is not an address or a host name"),
        (
            "sources.motive.server",
            "'10.0.0.1:1510'",
            "has a port. Write the address alone: '10.0.0.1'",
        ),
        (
            "sources.motive.server",
            "eth0",
            "is a network interface. Write its address: `ip -4 addr show eth0`",
        ),
        ("sources.motive.server", "wlan1", "is a network interface"),
        ("sources.motive.server", "enp0s31f6", "is a network interface"),
        ("sources.motive.server", "wlx00c0ca123456", "is a network interface"),
        ("sources.motive.interface", LOOPBACK, "is a network interface. Write its address"),
        ("sources.motive.interface", "motive-pc", "is not an IPv4 address"),
        ("sources.motive.multicast_group", "192.168.1.1", "is not a multicast address"),
        ("renderers.unity.bind", "eth0", "is a network interface"),
        ("http.bind", "eth0", "is a network interface"),
        ("stream.bind", "tcp://eth0:5560", "is a network interface"),
        ("cameras.front.T_body_camera.p_m", "[0.1, 0]", "p_m: has 2 of 3 values"),
        ("actors.drone.size_m", "[0.1]", "size_m: has 1 of 3 values"),
        ("actors.drone.size_m", "[1, 1, 1, 1]", "size_m: has 4 values, of which 3 are wanted"),
        (
            "actors.drone.size_m",
            "[350, 350, 120]",
            "a side of 350 m. Lengths are metres: write 0.35 for 350 mm",
        ),
        (
            "actors.drone.T_body_markers.p_m",
            "[0, 0, 45]",
            "lies off the body by 45 m. Lengths are metres",
        ),
        (
            "cameras.front.T_body_camera.p_m",
            "[100, 0, 0]",
            "lies off the body by 100 m. Lengths are metres",
        ),
        ("cameras.front.modalities", "[RGB]", "modalities.0: should be 'rgb', 'gray'"),
        ("cameras.front.modalities", "[]", "has 0 values, of which at least 1 are wanted"),
        (
            "outputs.bag",
            "{type: ros-bag, path: a, cameras: [front, fornt]}",
            "cameras.1: no camera is named 'fornt'",
        ),
        ("stream.bind", "tcp://127.0.0.1:70000", "there is no port 70000. Write one up to 65535"),
        ("federation.zmq", "{bind: 'tcp://127.0.0.1:65536'}", "there is no port 65536"),
        ("federation.zenoh", "{listen: 'tcp/127.0.0.1:99999'}", "there is no port 99999"),
        ("outputs.ros", "{type: ros2, listen: ['tcp/127.0.0.1:70000']}", "there is no port 70000"),
        ("outputs.ros", "{type: ros2, connect: ['tcp/127.0.0.1:70000']}", "there is no port 70000"),
        ("cameras.front.fov_y_deg", "1.2", "Angles are degrees: write 68.75 for 1.2 rad"),
        (
            "stream.bind",
            "tcp://127.0.0.1:8080",
            "TCP port 8080 is that of stream.bind. Give one of them another port",
        ),
        (
            "renderers.unity.image_port",
            "10253",
            "TCP port 10253 is that of renderers.unity.pose_port",
        ),
        ("outputs.fox", "{type: foxglove, port: 5560}", "TCP port 5560 is that of stream.bind"),
        (
            "federation.zmq",
            "{bind: 'tcp://0.0.0.0:8080', insecure: true}",
            "TCP port 8080 is that of http.port",
        ),
        ("cameras.front.fov", "90", "unknown key (did you mean 'fov_y_deg'?)"),
        ("actors.drone.team", "a", "unknown key; known: kind, source, subject, T_body_markers"),
    ],
)
def test_a_wrong_value_is_refused_with_its_cure(
    tmp_path: Path, key: str, value: str, cure: str
) -> None:
    (problem,) = problems_of(tmp_path, f"{key}={value}")
    assert cure in problem


@pytest.mark.parametrize(
    "server",
    [
        *("10.0.0.1", "motive-pc", "motive.lab.example.org", "localhost", "fe80::1"),
        *("ethlab1", "enschede2", "ethmocap3", "enp", "wlans2go"),
    ],
)
def test_addresses_and_names_of_hosts_are_taken(tmp_path: Path, server: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(preset_text("lab_optitrack"))
    config = load(
        path, sets=[f"sources.motive.server='{server}'"], env={}, resolve=registry.resolve
    )
    assert config.sources["motive"].server == server  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["rooms:\n\tlab: {}\n", "rooms:\n  lab: {}\n \tgym: {}\n"])
def test_a_tab_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(f"version: 1\n{text}")
    with pytest.raises(ConfigError, match=r"lab.yaml:\d:\d: a tab. YAML is indented with spaces"):
        load(path, env={}, resolve=registry.resolve)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "rooms:\n  lab:{}\n  gym: {}\n",
            "rooms:\n  lab:{} # ours\n  gym: {}\n",
            "rooms: {}\n name: a\n",
        ),
        "rooms:\n    lab: {}\n  gym: {}\n",
    ],
)
def test_a_missing_space_and_a_wrong_indentation_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(f"version: 1\n{text}http: {{}}\n")
    with pytest.raises(
        ConfigError, match="a space after the colon, and indent the keys of a section alike"
    ):
        load(path, env={}, resolve=registry.resolve)


@pytest.mark.parametrize(
    "text", ['name: "a\tb', 'name: "a\tb"}\n', "name: a # left\tright\nrooms: [\n"]
)
def test_a_tab_within_a_text_is_not_blamed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(f"version: 1\n{text}")
    with pytest.raises(ConfigError, match="not readable as YAML"):
        load(path, env={}, resolve=registry.resolve)


def test_outputs_of_single_poses_refuse_humans(tmp_path: Path) -> None:
    human = "actors.anna={kind: human, source: motive, subject: Anna}"
    output = "{type: mavlink-pose, device: /dev/ttyUSB0, actors: [anna]}"
    (problem,) = problems_of(tmp_path, human, f"outputs.out={output}")
    assert "outputs.out.actors.0: 'anna' is a human, who has no single pose" in problem


# --- what check finds beyond the file ------------------------------------------------------------


def check(path: Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", str(path)])
    return (
        result.exit_code,
        result.output if result.exception is None else f"{result.output}{result.exception}",
    )


def test_check_names_the_extra_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(
        preset_text("lab_optitrack") + "\noutputs:\n  out: {type: lcm, actors: [drone]}\n"
    )
    monkeypatch.setitem(sys.modules, "lcm", None)
    monkeypatch.delitem(sys.modules, "vil_bridge.outputs.lcm.output", raising=False)
    problems, _ = needs_of(load(path, env={}, resolve=registry.resolve))
    assert problems == [
        "outputs.out: type 'lcm': the Python module 'lcm' is not installed: pip install "
        "'.[lcm]' in the source folder"
    ]


def test_check_warns_of_a_motion_file_without_a_human(tmp_path: Path) -> None:
    file = data_dir("skeleton") / "sinusoidal.bvh"
    path = tmp_path / "file.yaml"
    path.write_text(
        f"version: 1\nrooms: {{a: {{}}}}\nsources:\n  s: {{type: motion-file, room: a, "
        f"path: {file}, unit_m: 0.01}}\n"
        "actors:\n  anna: {kind: human, source: s, subject: sinusoidal}\n"
        "  ben: {kind: human, source: s, subject: ben}\n"
    )
    code, text = check(path)
    assert code == 0
    assert f"warning: actors.anna: {NOT_HUMAN}" in text
    assert "warning: actors.ben: config wants 'ben'; stream has 'sinusoidal'" in text
    path.write_text(path.read_text().replace("sinusoidal.bvh", "absent.bvh"))
    problems, _ = needs_of(load(path, env={}, resolve=registry.resolve))
    assert (
        len(problems) == 1
        and problems[0].startswith("sources.s: ")
        and "no such recording" in problems[0]
    )


PATHS = """
version: 1
rooms: {hall: {}}
sources:
  take: {type: motion-file, room: hall, path: takes/walk.tum}
http: {token_file: tokens, insecure: true, scene: scenes/hall.yaml}
record: {folder: ~/flights}
outputs:
  bag: {type: ros-bag, path: ../flight.bag}
"""


def test_paths_begin_at_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/pilot")
    folder = tmp_path / "lab"
    (folder / "takes").mkdir(parents=True)
    (folder / "takes" / "walk.tum").write_text("0 0 0 0 0 0 0 1\n")
    (folder / "lab.yaml").write_text(PATHS)
    monkeypatch.chdir(folder)
    for path in (Path("lab.yaml"), folder / "lab.yaml"):
        config = load(
            path, env={}, sets=["debug.packet_capture=captures"], resolve=registry.resolve
        )
        assert config.sources["take"].model_dump()["path"] == folder / "takes" / "walk.tum"
        assert config.http.token_file == folder / "tokens"
        assert config.http.scene == str(folder / "scenes" / "hall.yaml")
        assert config.section("record").folder == Path("/home/pilot/flights")
        assert config.outputs["bag"].model_dump()["path"] == folder / ".." / "flight.bag"
        assert config.debug.packet_capture == folder / "captures"
        monkeypatch.chdir("/")


@pytest.mark.parametrize("kind", ["replay", "motion-file"])
def test_a_recording_that_is_missing_is_named(kind: str, tmp_path: Path) -> None:
    missing = f"{{type: {kind}, room: flight, path: away/flight.mcap}}"
    words = f"sources.take.path: {tmp_path}/away/flight.mcap does not exist. Write where it is"
    assert any(words in problem for problem in problems_of(tmp_path, f"sources.take={missing}"))


def test_ports_of_tcp_and_udp_and_of_two_addresses_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(preset_text("lab_optitrack"))
    sets = [
        "outputs.poses={type: natnet, command_port: 8080}",
        "outputs.fox={type: foxglove, bind: 127.0.0.2, port: 8080}",
        "sources.simulated={type: mavlink-imu, port: 14540}",
        "sources.real={type: mavlink-imu, peer: 10.0.0.2, port: 14540}",
    ]
    load(path, sets=sets, env={}, resolve=registry.resolve)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (
            [
                "sources.a={type: mavlink-imu, peer: 10.0.0.2}",
                "sources.b={type: mavlink-imu, peer: 10.0.0.2}",
            ],
            "sources.b: UDP port 14540 is that of sources.a.port",
        ),
        (
            ["sources.a={type: mavlink-imu}", "sources.b={type: mavlink-imu, peer: localhost}"],
            "sources.b: UDP port 14540 is that of sources.a.port",
        ),
        (
            [
                "stream.data_port=5561",
                "cameras.down={actor: drone, renderer: unity}",
                "federation.zmq.bind=tcp://127.0.0.1:5562",
            ],
            "TCP port 5562 is that of stream.data_port",
        ),
        (
            [
                "sources.t={type: tracker-udp, room: flight}",
                "sources.a={type: mavlink-imu, port: 51001}",
            ],
            "UDP port 51001 is that of",
        ),
    ],
    ids=["one computer", "this computer", "one for each camera", "tracker"],
)
def test_ports_that_meet_are_refused(tmp_path: Path, sets: list[str], words: str) -> None:
    assert any(words in problem for problem in problems_of(tmp_path, *sets)), problems_of(
        tmp_path, *sets
    )
