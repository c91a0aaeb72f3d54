"""The MAVLink vehicle on real sockets and terminals.

Against our emulator, and against pymavlink both ways.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as reference
from serial.tools import list_ports

from tests.support.events import Received, elapse, receiving, until
from tests.support.motions import Circling
from vil_adapters.emulation.emulator import EmulatedFrame
from vil_adapters.mavlink_vehicle.config import MavlinkVehicleConfig, VehicleEmulatorConfig
from vil_adapters.mavlink_vehicle.discovery import discover
from vil_adapters.mavlink_vehicle.emulator import VehicleEmulator
from vil_adapters.mavlink_vehicle.source import MavlinkVehicleSource
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import SourceFrame, SourceReset
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.runtime.supervisor import ComponentState, Status
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.wire


MS = 1_000_000
STALE_NS = 200 * MS
"""Silence after which a vehicle is said to be untracked."""


def vehicle(faults: str = "", **options: Any) -> VehicleEmulator:
    config = VehicleEmulatorConfig(**{"port": 0, "clock_drift_ppm": 0.0} | options)
    return VehicleEmulator(config, Circling("drone"), now_ns(), Faults.parse(faults))


def source(peer: VehicleEmulator, **options: Any) -> MavlinkVehicleSource:
    keys: dict[str, Any] = {"port": 0, "peer_port": peer.port, "rate_hz": 100.0}
    found = MavlinkVehicleSource("uav", MavlinkVehicleConfig(**keys | options))
    assert isinstance(found, PoseSource)
    return found


def heard(got: Received) -> list[SourceFrame]:
    """Frames that a message of the vehicle made.

    On a busy machine it may be silent for too long in between.
    """
    return [
        frame
        for before, frame in pairwise(got.frames)
        if frame.t_foreign_ns is not None or frame.t_arrival_ns - before.t_arrival_ns <= STALE_NS
    ]


def captured_ns(peer: VehicleEmulator) -> list[int]:
    """Stamps, as they are sent, of all poses that a vehicle has from now on, whether they are
    sent or not.
    """
    stamps: list[int] = []
    bodies = peer._bodies

    def noted(frame: EmulatedFrame, *, tracked: bool) -> Any:
        stamps.append(peer.foreign_ns(frame.t_ns) // 1000 * 1000)
        return bodies(frame, tracked=tracked)

    peer._bodies = noted  # type: ignore[method-assign]
    return stamps


def check_truth(frame: SourceFrame, peer: VehicleEmulator, resolution_s: float) -> None:
    """The pose is the one of the instant that the stamp tells, as exactly as the stamp does."""
    assert frame.t_foreign_ns is not None
    t_ns = frame.t_foreign_ns - peer.foreign_ns(peer.server.epoch_ns)
    truth = peer.server.motion.at(t_ns)
    np.testing.assert_allclose(frame.p_m[0], truth.p_m[0], atol=1e-6 + 3.0 * resolution_s)
    assert abs(frame.q_xyzw[0] @ truth.q_xyzw[0]) > 1.0 - (1e-6 + 2.0 * resolution_s) ** 2 - 1e-12


@pytest.mark.parametrize(
    ("message", "frame", "resolution_s"),
    [("odometry", "ned", 1e-6), ("odometry", "frd", 1e-6), ("local-position", "ned", 1e-3)],
)
async def test_poses_arrive_in_room_axes_with_the_vehicles_time(
    message: str, frame: str, resolution_s: float
) -> None:
    async with (
        vehicle(message=message, frame=frame) as peer,
        receiving(source(peer, subject="drone", message="auto")) as got,
    ):
        await got.until(lambda: len(heard(got)) >= 30 and len(got.exchanges) >= 3)
        await got.until(lambda: "autopilot" in got.status.facts)
        await got.until(lambda: got.status.state is ComponentState.RUNNING)
    for seen in heard(got):
        assert seen.subjects == ("drone",)
        assert seen.tracked.all()
        check_truth(seen, peer, resolution_s)
    for exchange in got.exchanges:
        assert (
            peer.foreign_ns(exchange.t_sent_ns)
            <= exchange.t_foreign_ns
            <= peer.foreign_ns(exchange.t_received_ns)
        )
    assert got.status.facts["message"] == message
    assert got.status.facts["autopilot"] == {"system": 1, "type": 12}


async def test_a_serial_line_may_appear_late_and_vanish(tmp_path: Path) -> None:
    link = tmp_path / "telemetry"
    config = MavlinkVehicleConfig(device=str(link), rate_hz=50.0)
    async with receiving(MavlinkVehicleSource("uav", config)) as got:
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        assert got.status.report().reason.startswith(f"{link} does not exist")
        async with vehicle(link=str(link)) as peer:
            await got.until(lambda: len(heard(got)) >= 20)
            check_truth(heard(got)[-1], peer, 1e-6)
        await got.until(lambda: isinstance(got.events[-1], SourceReset))
    assert got.resets[-1].reason == "the serial line was lost"


async def test_the_vehicle_is_asked_for_the_rate_and_obeys() -> None:
    """Of 200 poses per second each fourth.

    Where a busy machine left some out, one of them is due sooner.
    """
    async with vehicle(rate_hz=200.0) as peer, receiving(source(peer, rate_hz=50.0)) as got:
        captured = captured_ns(peer)
        await got.until(lambda: got.status.facts.get("requests") == {"odometry": "accepted"})
        seen = len(got.frames)

        def steps() -> list[tuple[int, float]]:
            """From frame to frame: how many poses on, and how many periods."""
            stamps = [f.t_foreign_ns for f in got.frames[seen + 1 :] if f.t_foreign_ns is not None]
            return [
                (captured.index(b) - captured.index(a), (b - a) / (5 * MS))
                for a, b in pairwise(stamps)
            ]

        await got.until(lambda: sum(round(periods) == poses for poses, periods in steps()) >= 10)
    assert {poses for poses, periods in steps() if round(periods) == poses} == {4}
    assert all(poses <= 4 and periods > 2.9 for poses, periods in steps())


async def test_the_other_message_is_asked_for_when_the_first_is_refused() -> None:
    async with vehicle(message="local-position") as peer, receiving(source(peer)) as got:
        await got.until(lambda: got.status.facts.get("requests") == {"odometry": "failed"})
        assert got.status.counters["refused"] == 1
        await got.until(lambda: bool(got.frames))


@pytest.mark.parametrize("message", ["odometry", "local-position"])
async def test_a_failed_estimate_is_not_tracked(message: str) -> None:
    async with (
        vehicle("occlude=drone:1min@1min", message=message) as peer,
        receiving(source(peer)) as got,
    ):
        await got.until(lambda: bool(got.frames) and bool(got.frames[-1].tracked.all()))
        elapse(peer, 1)
        await got.until(
            lambda: not got.frames[-1].tracked.any() and got.frames[-1].t_foreign_ns is not None
        )
        assert np.isfinite(got.frames[-1].p_m).all()
        elapse(peer, 2)
        await got.until(lambda: bool(got.frames[-1].tracked.all()))


async def test_a_jump_of_the_estimate_resets_histories_but_not_the_clock() -> None:
    async with vehicle() as peer, receiving(source(peer)) as got:
        await got.until(lambda: len(got.frames) >= 3)
        assert not got.resets
        peer.relocalise()
        await got.until(lambda: bool(got.resets))
        await got.until(lambda: isinstance(got.events[-1], SourceFrame))
    (reset,) = got.resets
    assert not reset.clock


async def test_a_restarted_vehicle_is_resumed_within_two_seconds() -> None:
    async with vehicle() as peer, receiving(source(peer)) as got:
        await got.until(lambda: len(got.frames) >= 3)
        await peer.restart()
        noticed_s = await got.until(lambda: bool(got.resets))
        tracked_s = await got.until(
            lambda: isinstance(got.events[-1], SourceFrame) and bool(got.frames[-1].tracked.all())
        )
        assert noticed_s + tracked_s < 2.0
    (reset,) = got.resets
    assert reset.clock
    assert reset.reason == "the autopilot restarted"


async def test_a_silent_vehicle_is_untracked_and_then_explained() -> None:
    async with vehicle("halfopen=1min@1min") as peer, receiving(source(peer)) as got:
        await got.more_frames()
        elapse(peer, 1)
        await got.until(lambda: bool(got.frames) and not got.frames[-1].tracked.any())
        assert got.frames[-1].t_foreign_ns is None
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        elapse(peer, 2)
        await got.until(
            lambda: got.status.state is ComponentState.RUNNING and got.frames[-1].tracked.all()
        )


async def test_nobody_there_is_told_apart_from_nobody_speaking() -> None:
    port = free_ports(1, socket.SOCK_DGRAM)[0]
    refused = MavlinkVehicleSource("a", MavlinkVehicleConfig(port=0, peer_port=port))
    silent = MavlinkVehicleSource("b", MavlinkVehicleConfig(port=0))
    async with receiving(refused) as got, receiving(silent) as other:
        await got.until(lambda: ComponentState.WAITING is got.status.state is other.status.state)
    assert f"127.0.0.1:{port}: refused" in got.status.report().reason
    assert "silent: does the vehicle send to this address and port" in other.status.report().reason


async def test_faults_of_the_network_cost_messages_and_nothing_else() -> None:
    faults = "loss=10%,duplicate=10%,reorder=10%,garbage=10%,jitter=2ms,seed=3"
    async with (
        vehicle(faults, rate_hz=250.0) as peer,
        receiving(source(peer, rate_hz=250.0)) as got,
    ):
        await got.until(lambda: len(got.frames) >= 150 and got.status.counters["garbage_bytes"] > 0)
    stamps = [f.t_foreign_ns for f in got.frames if f.t_foreign_ns is not None]
    assert stamps == sorted(set(stamps))
    assert not got.resets
    for frame in got.frames:
        if frame.t_foreign_ns is not None:
            check_truth(frame, peer, 1e-6)
    assert got.status.counters["old"] > 0


async def test_a_taken_port_and_an_unknown_computer_are_for_the_supervisor() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for config in (
            MavlinkVehicleConfig(port=port),
            MavlinkVehicleConfig(peer="no-such-computer.invalid"),
        ):
            with pytest.raises(SourceUnavailable, match="cannot listen on UDP port"):
                await MavlinkVehicleSource("uav", config).run(
                    lambda _event: None, Status("uav"), SourceContext()
                )


# --- the reference implementation on the other side -----------------------------------------------


class Reference:
    """A UDP socket spoken to by pymavlink."""

    def __init__(self, sock: socket.socket, to: tuple[str, int]) -> None:
        self.heard: list[Any] = []
        self._sock, self._to = sock, to
        self._mav = reference.MAVLink(self, srcSystem=1, srcComponent=1)
        self._mav.robust_parsing = True
        asyncio.get_running_loop().add_reader(sock, self._on_readable)

    def write(self, data: bytes) -> None:
        self._sock.sendto(bytes(data), self._to)

    def send(self, message: Any, system: int = 1) -> None:
        self._mav.srcSystem = system
        self._mav.send(message)

    def of(self, name: str) -> list[Any]:
        return [message for message in self.heard if message.get_type() == name]

    def _on_readable(self) -> None:
        self.heard += self._mav.parse_buffer(self._sock.recv(4096)) or []


@contextmanager
def udp(ip: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.bind((ip, 0))
        try:
            yield sock
        finally:
            asyncio.get_running_loop().remove_reader(sock)


def odometry(t_us: int, **changes: Any) -> Any:
    message = reference.MAVLink_odometry_message(
        *(t_us, 1, 12, 1.0, 2.0, -3.0, [1.0, 0.0, 0.0, 0.0]),
        *[math.nan] * 6,
        [math.nan] * 21,
        [math.nan] * 21,
        0,
        3,
        80,
    )
    for name, value in changes.items():
        setattr(message, name, value)
    return message


async def test_the_reference_vehicle_is_understood_asked_and_answered() -> None:
    with udp() as sock:
        port = sock.getsockname()[1]
        config = MavlinkVehicleConfig(port=0, peer_port=port, rate_hz=40.0)
        async with receiving(MavlinkVehicleSource("uav", config)) as got:
            request = await asyncio.wait_for(
                asyncio.get_running_loop().sock_recvfrom(sock, 500), 60.0
            )
            peer = Reference(sock, request[1])
            peer.send(reference.MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3))
            await got.until(lambda: bool(peer.of("COMMAND_LONG")) and bool(peer.of("TIMESYNC")))
            command = peer.of("COMMAND_LONG")[0]
            assert (command.command, command.param1, command.param2) == (511, 331.0, 25_000.0)
            peer.send(odometry(5_000_000))
            peer.send(odometry(5_000_000))
            peer.send(odometry(6_000_000), system=9)
            peer.send(odometry(5_100_000, frame_id=12))
            peer.send(odometry(5_200_000, quality=-1))
            peer.send(odometry(5_300_000, reset_counter=1, x=4.0))
            peer.send(reference.MAVLink_timesync_message(0, 4242))
            await got.until(lambda: any(m.ts1 == 4242 for m in peer.of("TIMESYNC")))
            await got.until(lambda: bool(got.resets) and isinstance(got.events[-1], SourceFrame))
    assert [f.t_foreign_ns for f in got.frames] == sorted(f.t_foreign_ns or 0 for f in got.frames)
    assert got.frames[-1].p_m.tolist() == [[2.0, 4.0, 3.0]]
    assert got.status.counters["other_systems"] == 1
    assert got.status.counters["malformed"] == 1, "an odometry in a frame of the body"
    assert got.status.counters["old"] == 1


async def test_only_the_configured_computer_is_heard() -> None:
    port = free_ports(1, socket.SOCK_DGRAM)[0]
    with udp("127.0.0.2") as stranger:
        async with receiving(MavlinkVehicleSource("uav", MavlinkVehicleConfig(port=port))) as got:
            await got.until(lambda: "interface" in got.status.facts)
            Reference(stranger, ("127.0.0.1", port)).send(odometry(1))
            await got.until(lambda: got.status.counters["foreign"] == 1)
            await got.until(lambda: "from 127.0.0.2 instead" in got.status.report().reason)
    assert not got.frames


async def test_the_reference_reads_the_emulator() -> None:
    with udp() as sock:
        target = sock.getsockname()
        async with vehicle(target=target, frame="frd") as emulator:
            peer = Reference(sock, ("127.0.0.1", emulator.port))
            await until(lambda: len(peer.of("ODOMETRY")) >= 5 and bool(peer.of("HEARTBEAT")))
            peer.send(
                reference.MAVLink_command_long_message(1, 1, 511, 0, 331, 50_000, 0, 0, 0, 0, 0)
            )
            peer.send(reference.MAVLink_timesync_message(0, 77))
            await until(lambda: bool(peer.of("COMMAND_ACK")) and bool(peer.of("TIMESYNC")))
            assert peer.of("COMMAND_ACK")[0].result == 0
    for message in peer.of("ODOMETRY"):
        t_ns = message.time_usec * 1000 - emulator.foreign_ns(emulator.server.epoch_ns)
        (p_m,), (q_xyzw,) = (lambda f: (f.p_m, f.q_xyzw))(emulator.server.motion.at(t_ns))
        assert (message.frame_id, message.child_frame_id) == (20, 12)
        assert [message.x, -message.y, -message.z] == pytest.approx(p_m, abs=5e-6)
        w, x, y, z = message.q
        assert abs(np.array([x, -y, -z, w]) @ q_xyzw) == pytest.approx(1.0, abs=1e-6)


# --- discovery -----------------------------------------------------------------------------------


async def test_discovery_hears_vehicles_and_lists_serial_devices() -> None:
    with udp() as sock:
        async with vehicle(target=sock.getsockname()) as peer:
            other = Reference(sock, ("127.0.0.1", peer.port))
            before = len(other.of("ODOMETRY"))
            found = await discover((f"127.0.0.1:{peer.port}",), 5.0)
            sent = len(other.of("ODOMETRY")) - before
    heard = [f for f in found if "peer" in f.config]
    assert [f.title for f in heard] == ["PX4, system 1"]
    assert MavlinkVehicleConfig(**heard[0].config).peer_port == peer.port
    ((name, rate_hz),) = heard[0].bodies
    assert name == "vehicle"
    assert rate_hz == pytest.approx(sent / 5.0, rel=0.1), (
        "as another listener hears: a busy machine sends fewer"
    )
    assert [f.config["device"] for f in found if "device" in f.config] == sorted(
        port.device for port in list_ports.comports(include_links=True)
    )
