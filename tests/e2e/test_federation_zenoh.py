"""Two bridges over zenoh: the same source, logins, TLS, and what a reader may not do."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.events import Received, until
from tests.support.federation import far, joined
from vil_adapters.lab.link import LinkEmulator, LinkSpec
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError, SinkError
from vil_bridge.core.types import ActorKind, ClockExchange, SourceReset, TrackingState
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    ActorPose,
    Description,
    FrameMessage,
    Responder,
    encode_frame,
    records_of,
)
from vil_simulation.demo.child_processes import free_ports

zenoh = pytest.importorskip("zenoh")

from vil_bridge.protocols.federation.zenoh_link import ZenohPublisherLink, read_login  # noqa: E402

pytestmark = pytest.mark.process


@asynccontextmanager
async def publishing(
    endpoint: str, run: int = 7, **guards: Path
) -> AsyncIterator[ZenohPublisherLink]:
    """A publisher of one drone at 100 Hz."""
    responder = Responder(run, Description("far", 1, (ActorInfo("drone", ActorKind.VEHICLE),)))
    link = ZenohPublisherLink(endpoint, "far", responder.answer, **guards)
    link.open()

    async def publish() -> None:
        pose = ActorPose(0, TrackingState.TRACKED, np.ones(3), np.array([0.0, 0.0, 0.0, 1.0]))
        for sequence in range(1, 100_000):
            t_ns = now_ns()
            link.publish(
                encode_frame(FrameMessage(run, sequence, 1, t_ns, t_ns, *records_of([pose])))
            )
            await asyncio.sleep(0.01)

    task = asyncio.create_task(publish())
    try:
        yield link
    finally:
        task.cancel()
        await asyncio.wait((task,))
        link.close()


def endpoint(scheme: str = "tcp") -> str:
    import socket

    return f"{scheme}/127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


async def flows(received: Received) -> None:
    frame = (await received.more_frames())[-1]
    assert frame.subjects == ("drone",)
    assert frame.p_m.tolist() == [[1.0, 1.0, 1.0]]
    await until(lambda: len(received.of(ClockExchange)) >= 3)


async def test_frames_clock_and_a_restart() -> None:
    place = endpoint()
    async with joined(far(place)) as received:
        async with publishing(place) as link:
            await flows(received)
            assert link.subscribers == 1
        async with publishing(place, run=8):
            await until(lambda: received.of(SourceReset))  # frames of the old run may still come
            await received.more_frames(1)
            assert [reset.reason for reset in received.of(SourceReset)] == [
                "the other bridge restarted"
            ]


async def test_back_soon_after_a_cut() -> None:
    place = endpoint()
    port = int(place.rpartition(":")[2])
    async with (
        publishing(place),
        LinkEmulator(LinkSpec.parse(f"tcp:0=127.0.0.1:{port}:delay=10ms")) as link,
        joined(far(f"tcp/127.0.0.1:{link.port}")) as received,
    ):
        await flows(received)
        link.cut()
        await until(lambda: received.status.counters["connections_given_up"] >= 2)
        seen = len(received.frames)
        link.restore()
        assert await received.until(lambda: len(received.frames) >= seen + 3) < 2.0
        assert received.of(SourceReset) == []


async def test_users_come_in_and_others_do_not(tmp_path: Path) -> None:
    place = endpoint()
    users = private(tmp_path / "users", "lab:secret\n")
    good, bad = private(tmp_path / "good", "lab:secret"), private(tmp_path / "bad", "lab:guess")
    async with publishing(place, users=users):
        async with joined(far(place, login=good)) as received:
            await flows(received)
        async with joined(far(place, login=bad)) as wrong, joined(far(place)) as nobody:
            await until(
                lambda: all("the login" in r.status.report().reason for r in (wrong, nobody))
            )
            assert wrong.events == nobody.events == []


async def test_a_reader_cannot_put(tmp_path: Path) -> None:
    """A listener's own words in the site's key space reach nobody."""
    place = endpoint()
    async with publishing(place), joined(far(place)) as received:
        await flows(received)
        config = zenoh.Config()
        for key, value in (
            ("mode", '"client"'),
            ("connect/endpoints", f'["{place}"]'),
            ("scouting/multicast/enabled", "false"),
        ):
            config.insert_json5(key, value)
        intruder = await asyncio.to_thread(zenoh.open, config)
        try:
            for _ in range(20):
                intruder.put("vil/far/frame", b"false news")
                await received.more_frames(1)
        finally:
            intruder.close()
        assert received.status.counters["malformed"] == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of its own and its key."""
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost"
    )
    names = [
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]
    try:
        subprocess.run(
            [*words.split(), *names, "-out", str(paths[0]), "-keyout", str(paths[1])],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"no openssl to make a certificate with: {exc}")
    return paths


async def test_tls_with_a_known_certificate_only(certificate: tuple[Path, Path]) -> None:
    place = endpoint("tls").replace("127.0.0.1", "localhost")
    async with publishing(place, certificate=certificate[0], private_key=certificate[1]):
        async with joined(far(place, ca_certificate=certificate[0])) as received:
            await flows(received)
        async with joined(far(place)) as distrusting:
            await until(lambda: distrusting.status.counters["connections_given_up"] >= 2)
            assert distrusting.events == []


def test_files_with_passwords_are_private(tmp_path: Path) -> None:
    path = private(tmp_path / "login", "lab:secret\n")
    assert read_login(path) == ("lab", "secret")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_login(path)
    with pytest.raises(ConfigError, match="USER:PASSWORD"):
        read_login(private(tmp_path / "wrong", "secret\n"))
    link = ZenohPublisherLink("tcp/127.0.0.1:0", "far", lambda _: None, users=tmp_path / "absent")
    with pytest.raises(SinkError, match="absent"):
        link.open()


def test_a_private_key_that_others_can_read_is_refused(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    shared = tmp_path / "key.pem"
    shared.write_bytes(certificate[1].read_bytes())
    shared.chmod(0o644)
    for key, reason in (
        (shared, "others may read this private key; chmod 600"),
        (tmp_path / "absent", "absent: cannot be read"),
    ):
        guards = {"certificate": certificate[0], "private_key": key}
        link = ZenohPublisherLink(endpoint("tls"), "far", lambda _: None, **guards)
        with pytest.raises(SinkError, match=reason):
            link.open()
