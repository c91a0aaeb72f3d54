"""``vil-bridge lab`` as a process.

Every kind of server with its own client, faults, links, recordings, the end.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.common import wait_until
from tests.support.events import receiving
from tests.support.programs import VIL_BRIDGE, Program
from vil_adapters.lab.run import DEFAULT_SERVERS, LabConfig
from vil_adapters.lab.servers import KINDS, ServerSpec, with_faults
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.vicon.config import TrackerUdpConfig, ViconConfig
from vil_adapters.vicon.source import ViconSource
from vil_adapters.vicon.udp_source import TrackerUdpSource
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.source import VrpnSource
from vil_bridge.cli.main import main
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import PoseSource
from vil_simulation.demo.child_processes import free_ports


@contextlib.contextmanager
def lab(folder: Path, *arguments: str) -> Iterator[None]:
    """A running lab, ended with Ctrl-C, which it must follow within 2 s and without a word of
    complaint.
    """
    with Program(*VIL_BRIDGE, "lab", "--imu", folder / "imu", *arguments, split=True) as child:
        child.await_text("^running")
        yield
        code, waited_s = child.end_waiting(signal.SIGINT)
        assert code == 0 and waited_s < 2.0
        assert child.error_text() == ""


async def first_frames(source: PoseSource, count: int = 3) -> list[SourceFrame]:
    async with receiving(source) as received:
        return await received.more_frames(count)


def assert_tracked(frames: list[SourceFrame]) -> None:
    """Check that no body is lost, but in the one frame that a VRPN source makes of a silence."""
    assert frames[0].tracked.all()
    for before, frame in pairwise(frames):
        silence_ns = frame.t_arrival_ns - before.t_arrival_ns
        assert frame.tracked.all() or (before.tracked.all() and silence_ns > 100 * NS_PER_MS)


@pytest.mark.process
async def test_a_body_at_rest_does_not_look_frozen(tmp_path: Path) -> None:
    ports = free_ports(2, socket.SOCK_DGRAM)
    start_ns = now_ns() + 1000 * NS_PER_S  # until when it rests
    with lab(tmp_path, "--motive", f"flight@{ports[0]},{ports[1]}", "--epoch-ns", str(start_ns)):
        frames = await first_frames(
            OptitrackSource("x", OptitrackConfig(command_port=ports[0])), 20
        )
        assert len({frame.p_m.tobytes() for frame in frames}) == len(frames)


@pytest.mark.process
async def test_every_kind_of_server_serves_its_room(tmp_path: Path) -> None:
    udp = free_ports(4, socket.SOCK_DGRAM)
    tcp = free_ports(2, socket.SOCK_STREAM)
    with lab(
        tmp_path,
        *(
            "--motive",
            f"actor@{udp[0]},{udp[1]}",
            "--tracker",
            f"{tcp[0]}",
            "--vrpn",
            f"flight@127.0.0.1:{tcp[1]}",
        ),
        *("--tracker-udp", f"{udp[2]}", "--link", f"{udp[3]}={udp[0]}:delay=5ms"),
    ):
        for port in (udp[0], udp[3]):
            frames = await first_frames(OptitrackSource("x", OptitrackConfig(command_port=port)))
            assert [s.model.name for s in frames[-1].skeletons] == ["Actor"]
        for source in (
            ViconSource("x", ViconConfig(port=tcp[0])),
            VrpnSource("x", VrpnConfig(port=tcp[1])),
            TrackerUdpSource("x", TrackerUdpConfig(port=udp[2])),
        ):
            frames = await first_frames(source, 10)
            assert frames[-1].subjects == ("drone",)
            assert_tracked(frames)
        assert (tmp_path / "imu").exists()


@pytest.mark.process
def test_a_second_lab_never_takes_the_serial_port_of_a_running_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "imu"
    ports = free_ports(3, socket.SOCK_STREAM)
    with lab(tmp_path, "--vrpn", str(ports[0])):
        wait_until(link.exists)
        first = link.readlink()
        code, stderr = run_here(monkeypatch, capsys, "--vrpn", str(ports[1]), "--imu", str(link))
        assert (code, stderr) == (
            2,
            f"IMU {link}: {link} is in use: it leads to {first}. Stop the other program, "
            "or choose another path\n",
        )
        assert link.readlink() == first
        assert link.exists()
    assert not link.is_symlink()
    link.symlink_to("/proc/4194304/fd/7")  # of a lab that was killed
    with lab(tmp_path, "--vrpn", str(ports[2])):
        wait_until(link.exists)


@pytest.mark.process
@pytest.mark.parametrize("version", ["3.0", "4.0"])
async def test_a_motive_of_any_version_sends_to_its_group(tmp_path: Path, version: str) -> None:
    command, data = free_ports(2, socket.SOCK_DGRAM)
    with lab(tmp_path, "--motive", f"flight@{command},{data},{version},multicast"):
        async with receiving(
            OptitrackSource("x", OptitrackConfig(command_port=command))
        ) as received:
            await received.more_frames(3)
        facts = received.status.facts
        assert (facts["server_version"], facts["mode"]) == (
            version,
            f"multicast 239.255.42.99:{data}",
        )


@pytest.mark.process
async def test_qtm_is_served_to_its_vendors_client(tmp_path: Path) -> None:
    pytest.importorskip("qtm_rt", reason="the vendor's client is not installed (extra qualisys)")
    from vil_adapters.qualisys.config import QualisysConfig
    from vil_adapters.qualisys.source import QualisysSource

    (port,) = free_ports(1, socket.SOCK_STREAM)
    with lab(tmp_path, "--qtm", f"actor@{port}"):
        frames = await first_frames(QualisysSource("x", QualisysConfig(port=port)))
    assert frames[-1].skeletons[0].model.name == "Actor"


@pytest.mark.process
async def test_faults_strike_the_server_that_they_name(tmp_path: Path) -> None:
    ports = free_ports(2, socket.SOCK_STREAM)
    rooms = ("--vrpn", f"flight@{ports[0]}", "--tracker", f"flight@{ports[1]}")
    with lab(tmp_path, *rooms, "--faults", "tracker:occlude=drone:10min@0s"):
        healthy = await first_frames(VrpnSource("x", VrpnConfig(port=ports[0])))
        hidden = await first_frames(ViconSource("x", ViconConfig(port=ports[1])))
    assert_tracked(healthy)
    assert not any(frame.tracked.any() for frame in hidden)


@pytest.mark.process
async def test_a_recording_is_filmed_by_any_server(tmp_path: Path) -> None:
    recording = tmp_path / "flight.txt"
    rows = [f"{1e9 + 0.01 * i:.3f} {0.01 * i:.3f} 2.0 1.0 0 0 0 1" for i in range(300)]
    recording.write_text("# timestamp tx ty tz qx qy qz qw\n" + "\n".join(rows) + "\n")
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with lab(tmp_path, "--recording", str(recording), "--vrpn", str(port)):
        assert not (tmp_path / "imu").exists(), "a trajectory tells no IMU"
        frames = await first_frames(VrpnSource("x", VrpnConfig(port=port)), 5)
    assert frames[-1].subjects == ("drone",)
    assert frames[-1].p_m[0, 1:] == pytest.approx([2.0, 1.0], abs=1e-6)
    assert 0.0 <= frames[-1].p_m[0, 0] <= 3.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--motive", "roof@1510"],
            "--motive roof@1510: write "
            "[ROOM@][ADDRESS:]PORT[,DATA][,VERSION][,multicast] with one of the rooms flight",
        ),
        (
            ["--motive", "1510,5.0"],
            "--motive 1510,5.0: NatNet 5.0 is not emulated. Write 2.5 to 2.10",
        ),
        (["--vrpn", "3883,4.1"], "--vrpn 3883,4.1: write [ROOM@][ADDRESS:]PORT with"),
        (["--vrpn", "70000"], "--vrpn 70000: ports are 0 to 65535"),
        (
            ["--faults", "qtm:loss=5%"],
            "no server or room is named 'qtm'; here: actor, flight, motive",
        ),
        (["--faults", "loss=5"], "fault 'loss=5': write a share such as 5%"),
        (["--link", "7100"], "link '7100': write [tcp:]"),
        (["--recording", "no/such/thing.bvh"], "no such recording"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, stderr = run_here(monkeypatch, capsys, *arguments)
    assert code == 2
    assert said in stderr


def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "lab", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().err


@pytest.mark.wire
def test_a_taken_port_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, stderr = run_here(monkeypatch, capsys, "--tracker", str(port))
    assert (code, stderr) == (2, f"Tracker at 127.0.0.1:{port}: Address already in use\n")


def test_the_servers_of_the_table_exist() -> None:
    for kind in KINDS:
        pytest.importorskip("qtm_rt") if kind == "qtm" else None
        (server,) = with_faults(
            [ServerSpec.parse(kind, "actor@0")], [f"{kind}:loss=5%", "actor:seed=3"]
        )
        assert server.faults == Faults(seed=3), "the later text stands"
        assert (server.room, server.host, server.port) == ("actor", "127.0.0.1", 0)


def test_the_default_lab_is_two_motives() -> None:
    assert LabConfig().servers == DEFAULT_SERVERS
    assert [(s.kind, s.room, s.port, s.second_port) for s in DEFAULT_SERVERS] == [
        ("motive", "flight", 1510, 1511),
        ("motive", "actor", 1520, 1521),
    ]
    with pytest.raises(ConfigError, match="no server or room is named"):
        with_faults(DEFAULT_SERVERS, ["hall:loss=1%"])
