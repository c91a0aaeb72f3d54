"""Checks of doctor on prepared files, ports and devices: what they see and what they advise."""

from __future__ import annotations

import os
import pty
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.programs import Program
from vil_bridge.config.root import ActorConfig
from vil_bridge.core.types import (
    ClockExchange,
    ImuSample,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
)
from vil_bridge.kernel import library
from vil_bridge.runtime.supervisor import ComponentState, StatusReport
from vil_bridge.setup.doctor.examine import as_text, examine, report_header
from vil_bridge.setup.doctor.finding import Finding, State, fail, ok, warn
from vil_bridge.setup.doctor.kernel import (
    check_clock_source,
    check_clock_sync,
    check_disk,
    check_ptp,
    check_realtime,
    check_receive_buffer,
    check_reverse_path,
    check_udp_errors,
    udp_errors,
)
from vil_bridge.setup.doctor.network import (
    Interface,
    check_interfaces,
    check_multicast,
    check_port,
    check_route,
    check_serial,
    interfaces,
    route_to,
)
from vil_bridge.setup.doctor.software import (
    check_compiled_kernel,
    check_extra,
    check_gl,
    check_jpeg,
    check_sdks,
    check_video,
)
from vil_bridge.setup.doctor.watch import (
    SourceActivity,
    check_answer,
    check_clock,
    check_frozen,
    check_subject,
    check_up_axis,
)

LO = Interface(1, "lo", "127.0.0.1")
S = 1_000_000_000


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# --- the kernel -----------------------------------------------------------------------------------


def test_a_small_receive_buffer(tmp_path: Path) -> None:
    assert check_receive_buffer(tmp_path).state is State.WARN
    put(tmp_path, "proc/sys/net/core/rmem_max", "212992\n")
    found = check_receive_buffer(tmp_path)
    assert found.state is State.WARN
    assert "net.core.rmem_max is 212992 bytes" in found.text
    assert "sysctl -w net.core.rmem_max=4194304" in found.cure
    put(tmp_path, "proc/sys/net/core/rmem_max", "4194304\n")
    assert check_receive_buffer(tmp_path) == ok(
        "socket buffers", "net.core.rmem_max is 4194304 bytes"
    )


def test_dropped_datagrams(tmp_path: Path) -> None:
    assert udp_errors(tmp_path) == {}
    assert check_udp_errors({}, {}).state is State.WARN
    put(
        tmp_path,
        "proc/net/snmp",
        "Ip: A\nIp: 1\nUdp: InDatagrams NoPorts InErrors RcvbufErrors\nUdp: 9 1 3 3\n",
    )
    now = udp_errors(tmp_path)
    assert now == {"InDatagrams": 9, "NoPorts": 1, "InErrors": 3, "RcvbufErrors": 3}
    assert check_udp_errors(now, now).state is State.OK
    found = check_udp_errors({**now, "RcvbufErrors": 1}, now)
    assert found.state is State.FAIL and "dropped 2 datagrams during this check" in found.text


def test_a_strict_reverse_path_filter(tmp_path: Path) -> None:
    put(tmp_path, "proc/sys/net/ipv4/conf/all/rp_filter", "0\n")
    put(tmp_path, "proc/sys/net/ipv4/conf/eth1/rp_filter", "1\n")
    found = check_reverse_path(tmp_path, 2)
    assert (
        found.state is State.WARN
        and "strict on eth1" in found.text
        and "conf.eth1.rp_filter=2" in found.cure
    )
    assert check_reverse_path(tmp_path, 1).state is State.OK, "one network is always the right one"
    put(tmp_path, "proc/sys/net/ipv4/conf/all/rp_filter", "2\n")
    assert check_reverse_path(tmp_path, 2).state is State.OK, "the looser of the two counts"


def test_clocks(tmp_path: Path) -> None:
    source = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    assert check_clock_source(tmp_path).state is State.WARN
    put(tmp_path, source, "hpet\n")
    assert "hpet: slow" in check_clock_source(tmp_path).text
    put(tmp_path, source, "tsc\n")
    assert check_clock_source(tmp_path) == ok("clock source", "tsc")
    assert check_clock_sync().state in (State.OK, State.WARN)
    assert check_realtime().state in (State.OK, State.WARN)
    assert "GiB free" in check_disk(tmp_path).text


def test_ptp_clocks_are_named_and_none_is_well(tmp_path: Path) -> None:
    assert check_ptp(tmp_path) == ok("PTP clocks", "none")
    put(tmp_path, "sys/class/ptp/ptp10/clock_name", "e1000e-eth2\n")
    put(tmp_path, "sys/class/ptp/ptp9/clock_name", "igb\n")
    (tmp_path / "sys/class/ptp/ptp1").mkdir()
    assert check_ptp(tmp_path) == ok("PTP clocks", "ptp9 (igb), ptp10 (e1000e-eth2)")


# --- the network ----------------------------------------------------------------------------------


@pytest.mark.wire
def test_interfaces_and_routes() -> None:
    own = interfaces()
    assert LO.address in {i.address for i in own}
    assert check_interfaces([LO]).state is State.WARN
    assert check_interfaces([LO, Interface(2, "eth0", "10.0.0.5")]).state is State.OK
    assert route_to("127.0.0.1").local_ip == "127.0.0.1"
    assert check_route("motive", "127.0.0.1", "auto", own).state is State.OK
    unknown = check_route("motive", "no-such-host.invalid", "auto", own)
    assert unknown.state is State.FAIL and "'no-such-host.invalid' is unknown" in unknown.text
    foreign = check_route("motive", "127.0.0.1", "203.0.113.9", own)
    assert (
        foreign.state is State.FAIL
        and "203.0.113.9 is none of this computer's: 127.0.0.1 (lo)" in foreign.text
    )
    wrong = check_route("motive", "127.0.0.1", "10.0.0.5", [LO, Interface(2, "eth0", "10.0.0.5")])
    assert (
        wrong.state is State.WARN
        and "reached from 127.0.0.1 (lo), but the source listens on 10.0.0.5" in wrong.text
    )


def test_a_group_that_the_kernel_joined_elsewhere(tmp_path: Path) -> None:
    igmp = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    igmp += "1\tlo        :     1      V3\n\t\t\t\t{}     1 0:00000000\t\t0\n"
    igmp += "2\teth0      :     1      V3\n\t\t\t\t{}     1 0:00000000\t\t0\n"
    ours, other = "632AFFEF", "010000E0"
    put(tmp_path, "proc/net/igmp", igmp.format(ours, other))
    assert check_multicast(LO, root=tmp_path).state is State.OK
    put(tmp_path, "proc/net/igmp", igmp.format(other, ours))
    found = check_multicast(LO, root=tmp_path)
    assert found.state is State.WARN and "the kernel lists it on eth0" in found.text
    assert check_multicast(LO).state is State.OK, "the real kernel joins it on loopback"
    absent = check_multicast(Interface(9, "eth9", "203.0.113.9"))
    assert absent.state is State.WARN and "cannot join 239.255.42.99" in absent.text


@pytest.mark.process
def test_a_port_that_somebody_has() -> None:
    code = (
        "import signal, socket; s = socket.create_server(('127.0.0.1', 0));"
        "print(s.getsockname()[1], flush=True); signal.pause()"
    )
    with Program(sys.executable, "-c", code) as holder:
        port = int(holder.await_text(r"(\d+)\n")[1])
        found = check_port("http", "127.0.0.1", port)
        assert found.state is State.FAIL
        assert (
            f"127.0.0.1:{port} is taken by {sys.executable}" in found.text
            and f"(pid {holder.pid})" in found.text
        )
    assert check_port("http", "127.0.0.1", port).state is State.OK
    assert check_port("http", "127.0.0.1", 0).state is State.OK
    assert "cannot be listened on" in check_port("http", "203.0.113.9", port).text


# --- devices and software -------------------------------------------------------------------------


def test_serial_lines(tmp_path: Path) -> None:
    missing = check_serial("imu", str(tmp_path / "ttyACM9"))
    assert (
        missing.state is State.FAIL
        and "ttyACM9 does not exist" in missing.text
        and "plug the autopilot in" in missing.cure
    )
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert "which is not there" in check_serial("imu", str(tmp_path / "gone")).text
    put(tmp_path, "file", "")
    assert "is not a serial line" in check_serial("imu", str(tmp_path / "file")).text


@pytest.mark.process
def test_a_serial_line_that_another_program_reads() -> None:
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        assert check_serial("imu", name).state is State.OK
        with Program(sys.executable, "-c", "input()", stdin=slave) as holder:
            found = check_serial("imu", name)
            assert found.state is State.WARN and f"(pid {holder.pid})" in found.text
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_serial_line_without_permission() -> None:
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        Path(name).chmod(0)
        found = check_serial("imu", name)
        assert (
            found.state is State.FAIL and "no permission" in found.text and "dialout" in found.cure
        )
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.process
def test_opengl_that_is_missing_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    put(tmp_path, "moderngl.py", "raise OSError('libEGL.so.1: cannot open shared object file')\n")
    found = check_gl()
    assert (
        found.state is State.FAIL
        and "libEGL.so.1" in found.text
        and "apt-get install libegl1" in found.cure
    )
    put(tmp_path, "moderngl.py", "while True: pass\n")
    assert "did not answer within 2 s" in check_gl(timeout_s=2.0).text


def test_codecs_and_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_jpeg().state is State.OK
    assert check_video().state is check_sdks().state is State.OK
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    absent = check_extra("qtm_rt")
    assert absent.state is State.OK and "pip install '.[qualisys]'" in absent.text
    assert check_gl().state is State.WARN


def test_an_absent_kernel_is_a_warning_that_names_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check_compiled_kernel().state is (State.OK if library.KERNEL is not None else State.WARN)
    monkeypatch.setattr(library, "KERNEL", None)
    absent = check_compiled_kernel()
    assert absent.state is State.WARN
    assert "ten times as long" in absent.text and "apt-get install gcc" in absent.cure


# --- what a source says ---------------------------------------------------------------------------


def report(
    state: ComponentState = ComponentState.RUNNING, reason: str = "", **facts: object
) -> StatusReport:
    return StatusReport("s", state, reason, 0, None, 0, {"lost": 0}, dict(facts))


def frames(
    count: int, *, moving: bool = True, tracked: bool = True, subject: str = "CF1"
) -> SourceActivity:
    heard = SourceActivity(report=report(server="Motive 3.1"))
    for k in range(count):
        p = np.array([[0.01 * k * moving, 0.0, 1.0]])
        q = np.array([[0.0, 0.0, 0.0, 1.0]])
        t_ns = S + k * 10_000_000
        heard.handle(SourceFrame("s", k, t_ns + 5 * S, t_ns, (subject,), p, q, np.array([tracked])))
    return heard


def actor(subject: str, kind: str = "vehicle") -> ActorConfig:
    return ActorConfig.model_validate({"kind": kind, "source": "s", "subject": subject})


def test_a_name_that_differs_in_case() -> None:
    found = check_subject("drone", actor("cf1"), frames(3))
    assert found.state is State.FAIL
    assert found.text == "config wants 'cf1'; stream has 'CF1' (did you mean 'CF1'?)"
    assert check_subject("drone", actor("CF1"), frames(3)).state is State.OK
    assert (
        "stream has nothing"
        in check_subject("drone", actor("cf1"), SourceActivity(report=report())).text
    )
    unseen = check_subject("drone", actor("CF1"), frames(3, tracked=False))
    assert unseen.state is State.WARN and "was not tracked" in unseen.text
    listed = SourceActivity(report=report(subjects=["wand"], skeletons=["Actor"]))
    assert "stream has 'wand', 'Actor'" in check_subject("drone", actor("cf1"), listed).text


def test_a_body_is_no_person_and_a_person_no_body() -> None:
    body = check_subject("drone", actor("CF1", "human"), frames(3))
    assert (
        body.state is State.FAIL
        and "'CF1' is a rigid body" in body.text
        and body.cure == "`kind:` of actors.drone"
    )
    human = check_subject("drone", actor("Actor"), person((0.4, 0.3, 1.7)))
    assert human.state is State.FAIL and "'Actor' is a skeleton" in human.text
    seen = check_subject("person", actor("Actor", "human"), person((0.4, 0.3, 1.7)))
    assert seen == ok("actor person", "'Actor' tracked in 1 of 1 frames")


def test_frames_that_repeat() -> None:
    found = check_frozen("motive", frames(50, moving=False))
    assert found is not None and found.state is State.WARN and "equal to the last bit" in found.text
    moving = check_frozen("motive", frames(50))
    assert moving is not None and moving.state is State.OK
    assert check_frozen("motive", frames(5, moving=False)) is None
    assert check_frozen("motive", frames(50, moving=False, tracked=False)) is None, (
        "an empty room is not frozen"
    )


def person(heights: tuple[float, float, float]) -> SourceActivity:
    model = SkeletonModel("Actor", ("Hip", "Head"), (-1, 0), np.zeros((2, 3)))
    heard = SourceActivity(report=report())
    skeleton = SkeletonFrame(
        model,
        np.array([[0.0] * 3, heights]),
        np.tile((0.0, 0.0, 0.0, 1.0), (2, 1)),
        np.ones(2, bool),
    )
    empty = np.empty((0, 3)), np.empty((0, 4)), np.empty(0, bool)
    heard.handle(SourceFrame("s", 1, None, S, (), *empty, (skeleton,)))
    return heard


def test_a_person_who_lies() -> None:
    lying = check_up_axis("motive", person((0.4, 1.7, 0.3)), "z")
    assert lying is not None and lying.state is State.WARN
    assert (
        "'Actor' measures 0.40 x 1.70 x 0.30 m" in lying.text
        and "`up_axis:` of sources.motive (now z)" in lying.cure
    )
    standing = check_up_axis("motive", person((0.4, 0.3, 1.7)), "y")
    assert standing is not None and standing.state is State.OK
    assert check_up_axis("motive", frames(3), "y") is None


def test_answers_and_clocks() -> None:
    silent = SourceActivity(report=report(ComponentState.WAITING, "no answer from 10.0.0.2:1510"))
    assert check_answer("motive", silent).text == "waiting: no answer from 10.0.0.2:1510"
    assert check_answer("motive", SourceActivity()).state is State.FAIL
    heard = frames(201)
    assert check_answer("motive", heard) == ok("source motive", "Motive 3.1, 100 per second")
    heard.report = report(server="Motive 3.1", version="4.1", mode="unicast")
    assert check_answer("motive", heard).text == "Motive 3.1, protocol 4.1, unicast, 100 per second"
    heard.report = StatusReport("s", ComponentState.RUNNING, "", 0, None, 0, {"lost": 20}, {})
    assert "20 frames were lost" in check_answer("motive", heard).text
    assert check_clock("motive", SourceActivity()) is None
    stampless = SourceActivity(report=report())
    stampless.handle(ImuSample("s", None, S, np.zeros(3), np.zeros(3)))
    told = check_clock("motive", stampless)
    assert told is not None and "no usable stamps" in told.text
    for k in range(8):
        t_ns = S + k * S // 4
        heard.handle(ClockExchange("s", t_ns, t_ns + 5 * S + 100_000, t_ns + 200_000))
    told = check_clock("motive", heard)
    assert (
        told is not None and told.state is State.OK and told.text.startswith("two-way, within 0.")
    )


# --- all together ---------------------------------------------------------------------------------


@pytest.mark.process
def test_a_computer_with_a_small_buffer_and_a_bad_clock(tmp_path: Path) -> None:
    put(tmp_path, "proc/sys/net/core/rmem_max", "212992\n")
    put(tmp_path, "sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm\n")
    findings = {f.name: f for f in examine(None, root=tmp_path)}
    assert findings["socket buffers"].state is findings["clock source"].state is State.WARN
    assert {"interfaces", "disk", "OpenGL", "JPEG codec", "extra qualisys", "vendor SDKs"} <= set(
        findings
    )


def test_what_people_read() -> None:
    text = as_text(
        [
            ok("a", "fine"),
            warn("bb", "slow", "faster"),
            Finding("c", State.FAIL, "gone", "back"),
            fail("d", "x", "y"),
        ]
    )
    assert text.splitlines() == [
        "ok    a   fine",
        "warn  bb  slow",
        "          -> faster",
        "FAIL  c   gone",
        "          -> back",
        "FAIL  d   x",
        "          -> y",
        "1 ok, 1 warnings, 2 failed",
    ]
    header = report_header()
    assert header["packages"]["numpy"] and socket.gethostname() not in str(header)
