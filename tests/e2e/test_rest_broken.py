"""The typed client against answers that end too early, come from somebody else, or never come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.common import PATIENCE_S
from vil_bridge.web.client import BridgeApi, BridgeUnreachable, RequestRejected, RestError
from vil_bridge.web.client.live import LiveReader

pytestmark = pytest.mark.wire


JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SHORT = JSON + b'Content-Length: 1000\r\n\r\n{"stat'
PROXY = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nfull"
)
FEED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nevent: log\n"
CLOSED = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n"
    b'{"detail":"not today"}'
)
SILENCE_S = 0.5
"""The client's patience with who is silent; others may be slow."""


@contextmanager
def answering(answer: bytes, *, silent: bool = False) -> Iterator[BridgeApi]:
    """A client of somebody who gives one question this answer, and then hangs up or is silent."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            line, _ = door.accept()
            with line:
                line.recv(65536)
                line.sendall(answer)
                if silent:
                    done.wait(60.0)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield BridgeApi(
                f"http://127.0.0.1:{door.getsockname()[1]}/",
                timeout_s=SILENCE_S if silent else PATIENCE_S,
            )
        finally:
            done.set()
            thread.join(60.0)


@pytest.mark.parametrize("download", [BridgeApi.get_recording_file, BridgeApi.get_recording_report])
def test_half_a_download_is_none(
    tmp_path: Path, download: Callable[[BridgeApi, str, Path], None]
) -> None:
    into = tmp_path / "run.mcap"
    into.write_bytes(b"an older one")
    with (
        answering(SHORT) as api,
        pytest.raises(BridgeUnreachable, match="ended after 6 of 1000 bytes; ask again"),
    ):
        download(api, "run.mcap", into)
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
    assert into.read_bytes() == b"an older one"


@pytest.mark.parametrize(
    ("answer", "silent", "ask", "kind", "text"),
    [
        (SHORT, False, BridgeApi.get_status, BridgeUnreachable, "ended after 6 of 1000 bytes"),
        (SHORT, True, BridgeApi.get_status, BridgeUnreachable, "broke off: timed out"),
        (b"", True, BridgeApi.get_status, BridgeUnreachable, "no answer: timed out"),
        (
            PROXY,
            False,
            BridgeApi.get_status,
            RestError,
            "not an answer of a bridge of this version: <html>",
        ),
        (PROXY, False, lambda api: api.get_ledger("front"), RestError, "not an answer of a bridge"),
        (PROXY, False, BridgeApi.get_ready, RestError, "not an answer of a bridge"),
        (FULL, False, BridgeApi.get_ready, RestError, "^full$"),
        (FEED, False, lambda api: list(api.get_updates()), BridgeUnreachable, "broke off"),
        (
            FEED,
            True,
            lambda api: list(api.get_updates()),
            BridgeUnreachable,
            "broke off: timed out",
        ),
        (CLOSED, False, BridgeApi.live, RestError, "^not today$"),
    ],
)
def test_every_failure_is_an_error_of_the_client(
    answer: bytes,
    silent: bool,
    ask: Callable[[BridgeApi], object],
    kind: type[RestError],
    text: str,
) -> None:
    with answering(answer, silent=silent) as api, pytest.raises(RestError, match=text) as told:
        ask(api)
    assert isinstance(told.value, kind)


def test_a_feed_that_is_refused_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[LiveReader] = []
    monkeypatch.setattr(LiveReader, "__init__", lambda *_: None)
    monkeypatch.setattr(LiveReader, "close", lambda feed: closed.append(feed))
    with pytest.raises(RequestRejected, match="poses_hz: Input should be less than or equal to 30"):
        BridgeApi("http://127.0.0.1:9").live(100)
    assert len(closed) == 1
