"""Streams with keys: who holds an allowed one reads, all others are refused and told why."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.utils import z85

from tests.support.common import PATIENCE_S, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from tests.support.stream_rig import SMALL, RawClient, StreamRig, first
from vil_bridge.client import Receiver
from vil_bridge.config.load import load
from vil_bridge.core.errors import ConfigError
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.protocols.zmq.curve import read_public_keys, read_secret_key
from vil_bridge.registry import resolve
from vil_bridge.setup.keys import new_keys

pytestmark = pytest.mark.wire


class Keys:
    """Key files of a bridge that lets in ``drone``, and of a stranger."""

    def __init__(self, folder: Path) -> None:
        self.server, self.server_secret = new_keys(folder / "bridge", "bridge")
        self.allowed = folder / "readers"
        _, self.drone = new_keys(self.allowed, "drone")
        _, self.stranger = new_keys(folder / "stranger", "stranger")

    def guard(self) -> CurveAuthenticator:
        return CurveAuthenticator(
            read_secret_key(self.server_secret), read_public_keys(self.allowed)
        )


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


@pytest.fixture
def rig(keys: Keys) -> Iterator[StreamRig]:
    with StreamRig(guard=keys.guard()) as rig, rig.playing(SMALL):
        yield rig


@pytest.mark.parametrize("transport", ["tcp", "shm", "udp"])
def test_an_allowed_reader_gets_pictures_and_the_others_nothing(
    rig: StreamRig, keys: Keys, transport: str
) -> None:
    with Receiver(
        rig.endpoint, server_key=keys.server, secret_key=keys.drone, transport=transport
    ) as drone:
        assert first(drone).image.shape == SMALL.shape[:2]
        assert drone.status(PATIENCE_S) == {"state": "fine"} and drone.transport == transport
        with Receiver(rig.endpoint, server_key=keys.server, secret_key=keys.stranger) as stranger:
            wait_until(lambda: stranger.problem == "the bridge does not know this reader's key")
            assert stranger.counters["registrations"] == 0
        first(drone)
    assert rig.hub.faults()["refused_key"] >= 1


def test_keys_may_be_texts_as_well_as_files(rig: StreamRig, keys: Keys) -> None:
    pair = read_secret_key(keys.drone)
    server = read_secret_key(keys.server_secret).public
    with Receiver(
        rig.endpoint, server_key=server.decode(), secret_key=pair.secret.decode()
    ) as drone:
        first(drone)


@pytest.mark.parametrize("given", ["none", "another bridge's"])
def test_without_keys_or_with_another_bridges_nobody_gets_in(
    rig: StreamRig, keys: Keys, given: str
) -> None:
    kwargs: dict[str, Any] = {}
    if given != "none":
        kwargs = {"server_key": keys.stranger.with_suffix(".key"), "secret_key": keys.drone}
    with Receiver(rig.endpoint, **kwargs) as lost:
        wait_until(
            lambda: lost.problem.startswith("the handshake failed"), what=lambda: lost.problem
        )
        assert lost.next(0.1) is None and lost.counters["registrations"] == 0


def test_a_handshake_that_fails_at_once_is_seen(
    rig: StreamRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = zmq.Socket.get_monitor_socket

    def watched_late(self: Any, *args: Any) -> Any:
        time.sleep(0.2)  # the receiver's thread waits for its turn on a computer at work
        return watched(self, *args)

    monkeypatch.setattr(zmq.Socket, "get_monitor_socket", watched_late)
    with Receiver(rig.endpoint) as lost:
        wait_until(
            lambda: lost.problem.startswith("the handshake failed"), what=lambda: lost.problem
        )


def test_the_data_socket_asks_for_keys_too(rig: StreamRig) -> None:
    with RawClient(rig.endpoint) as plain:
        plain.data.setsockopt(zmq.ROUTING_ID, b"guess")
        plain.data.connect(f"tcp://127.0.0.1:{rig.sink().port}")
        wait_until(lambda: rig.sink().faults()["bad_handshake"] >= 1)
        assert plain.picture(0.1) is None


def test_the_refused_key_is_named_once_and_no_secret_is(
    rig: StreamRig, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = read_secret_key(keys.stranger)
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            with Receiver(rig.endpoint, server_key=keys.server, secret_key=keys.stranger) as lost:
                refused = rig.hub.faults().get("refused_key", 0)
                wait_until(
                    lambda refused=refused: rig.hub.faults().get("refused_key", 0) > refused,  # type: ignore[misc]
                )
                wait_until(lambda lost=lost: lost.problem)  # type: ignore[misc]
    named = [r.getMessage() for r in caplog.records if "is not allowed" in r.getMessage()]
    assert named == [f"refused 127.0.0.1: its public key {stranger.public.decode()} is not allowed"]
    for secret in (stranger.secret, read_secret_key(keys.server_secret).secret):
        assert secret.decode() not in caplog.text and z85.decode(secret).hex() not in caplog.text


def test_a_reader_keeps_trying_until_its_key_is_allowed(keys: Keys) -> None:
    rig = StreamRig(guard=keys.guard())
    endpoint = rig.endpoint
    with Receiver(endpoint, server_key=keys.server, secret_key=keys.stranger) as late:
        wait_until(lambda: late.problem == "the bridge does not know this reader's key")
        rig.close()
        public = keys.stranger.with_suffix(".key")
        (keys.allowed / public.name).write_bytes(public.read_bytes())
        with StreamRig(bind=endpoint, guard=keys.guard()) as rig, rig.playing(SMALL):
            assert late.next(PATIENCE_S) is not None, late.problem


def test_key_files_that_hold_none_are_a_clear_error(tmp_path: Path, keys: Keys) -> None:
    empty = tmp_path / "empty.key"
    empty.write_text("nothing")
    with pytest.raises(ValueError, match="holds no public-key"):
        Receiver("tcp://127.0.0.1:1", server_key=empty, secret_key=keys.drone)
    with pytest.raises(ValueError, match="holds no secret-key"):
        Receiver("tcp://127.0.0.1:1", server_key=keys.server, secret_key=keys.server)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{secret_key: a, allowed_keys: b, bind: 'tcp://0.0.0.0:5560'}", ""),
        ("{insecure: true, bind: 'tcp://0.0.0.0:5560'}", ""),
        ("{bind: 'tcp://0.0.0.0:5560'}", "nothing guards it yet; give secret_key and allowed_keys"),
        ("{secret_key: a}", "secret_key and allowed_keys go together"),
        ("{allowed_keys: a}", "secret_key and allowed_keys go together"),
    ],
)
def test_beyond_loopback_keys_are_asked_for(tmp_path: Path, section: str, problem: str) -> None:
    file = tmp_path / "bridge.yaml"
    file.write_text(f"version: 1\nstream: {section}\n")
    if not problem:
        assert load(file, env={}, resolve=resolve).stream.bind == "tcp://0.0.0.0:5560"
        return
    with pytest.raises(ConfigError, match=problem):
        load(file, env={}, resolve=resolve)


@pytest.mark.process
def test_the_daemon_asks_for_keys_and_stops_at_once(tmp_path: Path, keys: Keys) -> None:
    file = tmp_path / "bridge.yaml"
    section = (
        f"{{secret_key: '{keys.server_secret}', allowed_keys: '{keys.allowed}', bind: "
        f"'tcp://0.0.0.0:0'}}"
    )
    file.write_text(f"version: 1\nhttp: {{port: 0}}\nstream: {section}\n")
    with Program(*VIL_BRIDGE, "run", file) as daemon:
        port = daemon.await_text(r"running: stream tcp://0\.0\.0\.0:(\d+)")[1]
        endpoint = f"tcp://127.0.0.1:{port}"
        with (
            Receiver(endpoint, server_key=keys.server, secret_key=keys.drone) as drone,
            Receiver(endpoint) as plain,
        ):
            wait_until(lambda: drone.problem == "no camera named 'front'")
            wait_until(lambda: plain.problem.startswith("the handshake failed"))
            assert drone.status(PATIENCE_S)
            code, waited_s = daemon.end_waiting()
            assert code == 0 and waited_s < 5.0
