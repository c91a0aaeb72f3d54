"""TCP connections of our ZeroMQ sockets that break, and those that we end."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from tests.attacks.zmtp import message, peer
from tests.support.common import wait_until
from tests.support.programs import Program
from tests.support.stream_rig import StreamRig
from vil_bridge.protocols.zmq import connection_watch as connection_end

pytestmark = pytest.mark.wire

_WAITING = """
import sys, time, zmq
from tests.attacks.zmtp import PING, message, peer, reset
from vil_bridge.protocols.zmq.peer_socket import PeerSocket, end_connection, sent_by
from vil_bridge.protocols.zmq.peer_socket import PeerCounter

socket = PeerSocket(zmq.Context(), zmq.ROUTER)
socket.rcvhwm = 4
counters = {}
counter = PeerCounter(socket, counters)
counter.bind("tcp://127.0.0.1:0")
endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
peers = [peer(int(endpoint.rpartition(":")[2])) for _ in range(20)]
counter.update()
for each in peers:
    each.sendall((message(b"x") * 20 + PING) * 20)
first = sent_by(socket.recv_multipart())[0] if sys.argv[1] == "ended" else None
time.sleep(0.2)  # libzmq reads until there is no room
if sys.argv[1] == "reset":
    for each in peers:
        reset(each)
else:
    assert end_connection(first, endpoint)
    assert not end_connection(first, endpoint), "it has ended"
time.sleep(0.2)
while socket.poll(200):
    socket.recv_multipart()
counter.update()
print("lives", counters, flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("how", ["reset", "ended"])
def test_a_connection_breaks_while_its_pings_wait(how: str) -> None:
    with Program(sys.executable, "-c", _WAITING, how) as program:
        program.await_text("lives")


def test_a_peer_that_does_not_answer_loses_its_connection_and_is_not_accused() -> None:
    with StreamRig() as rig, peer(int(rig.endpoint.rpartition(":")[2])) as vanished:
        connection_end._filter(vanished, connection_end._DROP_ALL)  # as a host without power
        wait_until(lambda: rig.hub.faults()["disconnected"] == 1, 20.0)
        assert rig.hub.faults()["cut_off"] == 0
        assert rig.hub.peer_faults.rows() == ()


def test_a_silenced_peer_sees_the_end_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = time.monotonic_ns()
    monkeypatch.setattr(connection_end, "machine_ns", lambda: now_ns)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as stranger,
    ):
        ours, _ = server.accept()
        stranger.sendall(b"waiting")
        connection_end.end(ours, quietly=True)
        stranger.sendall(b"more")
        assert ours.recv(10) == b"", "the end, and nothing of what the peer has sent"
        ours.close()
        connection_end.end_silenced()
        stranger.settimeout(0.1)
        with pytest.raises(TimeoutError):
            stranger.recv(1)
        now_ns += 11 * 10**9
        connection_end.end_silenced()
        stranger.settimeout(10.0)
        with pytest.raises(ConnectionResetError):
            stranger.recv(1)


def test_each_connection_of_one_identity_is_read_and_leaves_nothing_behind() -> None:
    with StreamRig() as rig:
        port = int(rig.endpoint.rpartition(":")[2])
        with peer(port, b"same"):
            for _ in range(5):
                with peer(port, b"same") as other:
                    # More than wait of one connection.
                    other.sendall(message(b'{"type":"ping","t1":1}') * 20)
                    answers = b""
                    while answers.count(b"pong") < 20:
                        answers += other.recv(65536)
        wait_until(lambda: rig.hub.faults()["disconnected"] == 6)
