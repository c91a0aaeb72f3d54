"""The control channel against floods, strangers, thieves of names and commanders without a role."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from tests.support.common import PATIENCE_S, wait_until
from tests.support.stream_rig import SMALL, RawClient, StreamRig, first
from vil_bridge.client import Receiver
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.protocols.zmq.curve import read_public_keys, read_secret_key
from vil_bridge.protocols.zmq.peer_socket import Peer, end_connection
from vil_bridge.runtime.access_tokens import Role, read_token, read_tokens
from vil_bridge.setup.keys import new_keys, new_tokens
from vil_bridge.web.auth.access import Access

pytestmark = pytest.mark.wire


ONE = {"w_radps": [[0, 0, 0]], "f_mps2": [[0, 0, 9.81]]}


# --- floods ---------------------------------------------------------------------------------------


def test_a_status_is_made_four_times_a_second_whatever_the_number_of_questions() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        client.register()
        answers = [client.ask(type="status", id=i) for i in range(100)]
        assert [answer["id"] for answer in answers] == list(range(100))
        assert rig.statuses <= 10  # a hundred questions take far less than two seconds


def test_a_stranger_gets_no_status_and_the_client_waits_for_its_registration() -> None:
    with StreamRig() as rig:
        with RawClient(rig.endpoint) as stranger:
            assert stranger.ask(type="status", id=1)["type"] == "error"
            assert rig.statuses == 0 and rig.hub.counters["stranger"] == 1
        with Receiver(rig.endpoint) as receiver:
            assert receiver.status(PATIENCE_S) == {"state": "fine"}
        with Receiver(rig.endpoint, camera="top") as lost:
            wait_until(lambda: lost.problem.startswith("no camera"))
            with pytest.raises(TimeoutError, match="no camera named 'top'"):
                lost.status(0.1)


def test_a_flood_is_refused_counted_and_named_and_a_reader_goes_on() -> None:
    with (
        StreamRig() as rig,
        RawClient(rig.endpoint) as vandal,
        rig.playing(SMALL),
        Receiver(rig.endpoint, name="jetson", encoding="raw") as receiver,
    ):
        first(receiver)
        question = json.dumps({"type": "status", "id": 1}).encode()
        vandal.control.setsockopt(zmq.SNDTIMEO, 20_000)
        for _ in range(3000):
            vandal.control.send(question)
        wait_until(lambda: rig.hub.counters["cut_off"] > 0)
        received = receiver.counters["received"]
        wait_until(lambda: receiver.counters["received"] > received + 5)
        assert rig.statuses == 0
        rows = {row.reason: row for row in rig.hub.peer_faults.rows()}
        assert rows["flood"].peer == "127.0.0.1" and rows["flood"].count > 12
        assert any(
            "127.0.0.1 sends what is refused (flood" in text
            for text in rig.hub.peer_faults.warnings()
        )


def test_connections_that_flood_are_ended_and_a_new_reader_registers() -> None:
    question = b'{"type":"ping","t1":1}'
    with StreamRig() as rig, ExitStack() as stack:
        vandals = [stack.enter_context(RawClient(rig.endpoint)) for _ in range(4)]
        for vandal in vandals:
            vandal.control.setsockopt(zmq.SNDTIMEO, 20_000)
            for _ in range(2000):
                vandal.control.send(question)
        wait_until(lambda: rig.hub.counters["cut_off"] >= 4)
        with rig.playing(SMALL), Receiver(rig.endpoint, name="jetson", encoding="raw") as receiver:
            first(receiver)


def test_a_reader_whose_connection_ends_goes_on_with_its_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A reader registers again after a long silence too, which a busy machine makes.
    monkeypatch.setattr("vil_bridge.outputs.stream.hub._SILENCE_NS", round(PATIENCE_S * NS_PER_S))
    monkeypatch.setattr("vil_bridge.client._STALL_S", PATIENCE_S)
    with StreamRig() as rig, rig.playing(SMALL), Receiver(rig.endpoint, encoding="raw") as receiver:
        first(receiver)
        port = int(rig.endpoint.rpartition(":")[2])
        (reader,) = rig.hub._slots
        assert not end_connection(reader.peer, f"tcp://127.0.0.1:{port + 1}"), (
            "another port's is left alone"
        )
        assert not end_connection(reader.peer._replace(address="192.0.2.1"), rig.endpoint), (
            "another peer's too"
        )
        assert not end_connection(Peer(b"x", "127.0.0.1"), rig.endpoint)
        assert end_connection(reader.peer, rig.endpoint)
        received = receiver.counters["received"]
        wait_until(lambda: receiver.counters["received"] > received + 20)
        assert receiver.counters["registrations"] == 1


def test_a_reader_that_floods_is_named_by_its_connection_and_does_not_lose_its_seat() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register(name="jetson")
        for _ in range(4000):
            client.control.send(b"{}")
        wait_until(lambda: rig.hub.counters["flood"] > 0)
        assert [s.token for s in rig.sink().subscribers] == [token]


def test_what_a_radio_held_back_until_the_seat_was_lost_is_no_flood_of_a_stranger() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.register(name="jetson")
        (reader,) = rig.hub._slots
        lost = threading.Event()
        rig.loop.call_soon_threadsafe(rig.hub._forget, reader)
        rig.loop.call_soon_threadsafe(lost.set)
        assert lost.wait(60.0)
        for k in range(800):
            client.say(
                type="imu", token=token, t_ns=[k], w_radps=[[0, 0, 0]], f_mps2=[[0, 0, 9.81]]
            )
        wait_until(lambda: rig.hub.counters["stray"] == 800)
        assert client.register(name="jetson") != token
        assert rig.hub.faults().get("flood", 0) == rig.hub.faults()["cut_off"] == 0


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    new_tokens(path)
    return path


def guarded(tokens: Path) -> StreamRig:
    """A bridge with ``http.token_file``."""
    access = Access(read_tokens(tokens))
    commands = {"vehicle_command": lambda _: "done", "vehicles": lambda _: ["drone"]}
    return StreamRig(commands=commands, refuses_command=access.refuses_command)


def test_commands_want_the_role_that_rest_wants(
    tokens: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control, view = read_token(tokens, Role.CONTROL), read_token(tokens, Role.VIEW)
    with caplog.at_level(logging.DEBUG), guarded(tokens) as rig, RawClient(rig.endpoint) as client:

        def ask(name: str, access: str = "") -> object:
            answer = client.ask(type="command", id=1, name=name, access=access)
            return answer["value"] if answer["ok"] else answer["error"]

        needed = (
            "this needs a token of the role control; give the client an access token of "
            "`http.token_file`"
        )
        assert ask("vehicle_command") == needed
        assert ask("vehicle_command", "a" * 40) == needed
        assert ask("vehicle_command", view) == "this needs the role control, yours is view"
        assert ask("vehicle_command", control) == "done"
        assert ask("vehicles", view) == ["drone"]
        assert "role view" in str(ask("vehicles"))
        client.register(name="jetson")
        assert ask("vehicle_command") == needed, "a registration is no role"
        assert rig.hub.counters["unauthorized"] == 5
        assert {(row.peer, row.reason) for row in rig.hub.peer_faults.rows()} == {
            ("127.0.0.1", "unauthorized")
        }
    assert control not in caplog.text and view not in caplog.text


def test_guesses_on_the_stream_lock_no_address_out_of_http(tokens: Path) -> None:
    access = Access(read_tokens(tokens))
    control = read_token(tokens, Role.CONTROL)
    assert all(access.refuses_command("vehicle_command", f"{i:040d}") for i in range(100))
    assert access.refuses_command("vehicle_command", control) is None
    assert access.failures.wait_s("127.0.0.1") == 0.0


def test_the_client_presents_its_token(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with guarded(tokens) as rig:
        with Receiver(rig.endpoint) as receiver, pytest.raises(ValueError, match="role control"):
            receiver.send_command("vehicle_command", PATIENCE_S)
        with Receiver(rig.endpoint, access_token=tokens) as receiver:
            assert receiver.send_command("vehicle_command", PATIENCE_S) == "done"
        monkeypatch.setenv("VIL_ACCESS_TOKEN", read_token(tokens, Role.CONTROL))
        with Receiver(rig.endpoint) as receiver:
            assert receiver.send_command("vehicle_command", PATIENCE_S) == "done"
    (tokens.parent / "none").write_text("view = " + "a" * 40)
    with pytest.raises(ValueError, match="holds no control token"):
        Receiver("tcp://127.0.0.1:1", access_token=tokens.parent / "none")


# --- names ----------------------------------------------------------------------------------------


def test_a_stranger_with_anothers_name_injects_no_samples() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as jetson, RawClient(rig.endpoint) as thief:
        token = jetson.ask(type="register", v=1, camera="front", name="jetson")["token"]
        stolen = thief.ask(type="register", v=1, camera="front", name="jetson")["token"]
        for t_ns in range(1, 6):
            # Before the owner's first sample.
            thief.say(type="imu", token=stolen, t_ns=[t_ns], **ONE)
        wait_until(lambda: rig.hub.counters["rival"] == 5)
        jetson.say(type="imu", token=token, t_ns=[7], **ONE)
        wait_until(lambda: rig.inertial)
        assert [window.t_ns.tolist() for _, window in rig.inertial] == [[7]]
        assert [(r.peer, r.reason, r.count) for r in rig.hub.peer_faults.rows()] == [
            ("'jetson' at 127.0.0.1", "rival", 5)
        ]


def test_the_key_decides_the_name(tmp_path: Path) -> None:
    server, server_secret = new_keys(tmp_path / "bridge", "bridge")
    allowed = tmp_path / "readers"
    jetson_key, logger_key = (new_keys(allowed, name)[1] for name in ("jetson", "logger"))
    with (
        StreamRig(
            guard=CurveAuthenticator(read_secret_key(server_secret), read_public_keys(allowed))
        ) as rig,
        RawClient(rig.endpoint, server, jetson_key) as jetson,
        RawClient(rig.endpoint, server, logger_key) as logger,
    ):
        mine, its = (
            client.ask(type="register", v=1, camera="front", name="jetson")
            for client in (jetson, logger)
        )
        assert (mine["name"], its["name"]) == ("jetson", "logger")
        logger.say(type="imu", token=its["token"], t_ns=[1], **ONE)
        wait_until(lambda: rig.inertial)
        # With the other's registration token, too, it speaks for itself only.
        logger.say(type="imu", token=mine["token"], t_ns=[2], **ONE)
        wait_until(lambda: rig.hub.counters["stray"] == 1)
        jetson.say(type="imu", token=mine["token"], t_ns=[3], **ONE)
        wait_until(lambda: len(rig.inertial) == 2)
        assert [(name, window.t_ns.tolist()) for name, window in rig.inertial] == [
            ("logger", [1]),
            ("jetson", [3]),
        ]
        assert logger.ask(type="status", id=1)["type"] == "status"
