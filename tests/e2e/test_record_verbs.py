"""`record`, `replay`, `export`, `report` as a user gives them.

What goes wrong is told, nothing half done is left.
"""

from __future__ import annotations

import gc
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from tests.support.offline import T0_NS, write_recording
from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError, RecordingError
from vil_bridge.core.types import Stamps
from vil_bridge.monitoring.frame_records import FrameRow

WHOLE = b"all of the recording"
TOLD = {
    "file": "a.mcap",
    "state": "recording",
    "lost": {},
    "messages": 1,
    "bytes": 1,
    "seconds": 0.1,
    "reason": "",
}


def given(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


class _Peer(BaseHTTPRequestHandler):
    """A bridge that answers what a recording is asked for, and ends in the middle of the file."""

    sent = WHOLE

    def _answer(self, body: bytes, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if "recordings/" in self.path:
            self._answer(self.sent, len(WHOLE))
        else:
            self._told()

    def _told(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = msgspec.json.encode(TOLD)
        self._answer(body, len(body))

    do_PUT = do_DELETE = _told

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quiet."""


def peer(sent: bytes) -> AbstractContextManager[str]:
    return serving(type("Peer", (_Peer,), {"sent": sent}))


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.wire
def test_a_recording_that_does_not_come_whole_is_told_and_not_left(tmp_path: Path) -> None:
    out = tmp_path / "a.mcap"
    with peer(WHOLE[:7]) as url:
        torn = given("record", url, "--seconds", "0.01", "--out", out)
        assert torn.exit_code == 3
        assert f"the answer ended after 7 of {len(WHOLE)} bytes" in torn.output
        assert f"the bridge has it: {url}/api/v1/recordings/a.mcap" in torn.output
    assert not out.exists()
    with peer(WHOLE) as url:
        assert given("record", url, "--seconds", "0.01", "--out", out).exit_code == 0
        assert out.read_bytes() == WHOLE
        again = given("record", url, "--seconds", "0.01", "--out", out)
        assert (again.exit_code, "never replace files" in again.output) == (3, True)
        nowhere = given("record", url, "--seconds", "0.01", "--out", tmp_path / "absent" / "a.mcap")
        assert (nowhere.exit_code, "is not a folder" in nowhere.output) == (3, True)


@pytest.mark.wire
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.9\r\n", "no bridge answers at"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "is not a bridge, or broke off"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "refuses: "),
    ],
)
def test_whoever_else_answers_is_told_from_a_bridge(answer: bytes, words: str) -> None:
    class Other(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with serving(Other) as url:
        done = given("record", url, "--seconds", "0.01")
        assert (done.exit_code, words in done.output) == (3, True), done.output
        report = given("report", "--url", url)
        assert (report.exit_code, url in report.output) == (3, True), report.output
        assert ("refuses: 401" in report.output) is (b"401" in answer)
    del done, report
    gc.collect()  # an answer that was left open would be told here


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """Some 20 kB of room."""
    disk = tmp_path / "tiny"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
    ).returncode:
        pytest.skip("may not mount a small disk here")
    (disk / "filler").write_bytes(bytes(44_000))
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def stamped(path: Path) -> Path:
    """A recording with 2,000 rows in its ledger."""
    rows = [
        FrameRow(i + 1, "raw", T0_NS, "tracked", {}, Stamps(request=T0_NS, warp=T0_NS + 1))
        for i in range(2000)
    ]
    return write_recording(path, ledger=[("front", msgspec.json.encode(row)) for row in rows])


@pytest.mark.process
def test_a_full_disk_is_told_and_the_folder_is_gone_again(tmp_path: Path, tiny_disk: Path) -> None:
    file = stamped(tmp_path / "flight.mcap")
    for words in (("export", file, "--to", "csv"), ("replay", file, "--as-fast-as-possible")):
        done = given(*words, "--out", tiny_disk / "out")
        assert done.exit_code == 3, done.output
        assert "No space left on device; nothing was written" in done.output
        assert not (tiny_disk / "out").exists()
    report = given("report", file, "--out", tiny_disk / "absent" / "page.html")
    assert (report.exit_code, "No such file or directory; give it room" in report.output) == (
        3,
        True,
    )


def test_what_failed_can_be_given_again(tmp_path: Path) -> None:
    file, out = write_recording(tmp_path / "flight.mcap"), tmp_path / "out"
    nothing = given("export", file, "--to", "png", "--out", out)
    assert isinstance(nothing.exception, RecordingError)
    assert "holds nothing that png could take" in str(nothing.exception)
    wrong = given("replay", file, "--as-fast-as-possible", "--out", out, "--scene", "nowhere")
    assert "no scene is named 'nowhere'" in str(wrong.exception)
    assert not out.exists()
    assert given("replay", file, "--as-fast-as-possible", "--out", out).exit_code == 0


def test_a_ledger_that_is_damaged_is_named(tmp_path: Path) -> None:
    file = write_recording(tmp_path / "flight.mcap", ledger=[("front", b'{"kind": "frame"}')])
    for words in (
        ("export", file, "--to", "csv", "--out", tmp_path / "a"),
        ("report", file, "--out", tmp_path / "b"),
    ):
        done = given(*words)
        assert isinstance(done.exception, RecordingError), done.output
        assert f"{file}: a line of the ledger of front is damaged" in str(done.exception)


def test_a_report_never_replaces_what_it_is_made_of(tmp_path: Path) -> None:
    file = write_recording(tmp_path / "flight.mcap")
    before = file.read_bytes()
    for option in ("--out", "--save"):
        done = given("report", file, option, tmp_path / "." / "flight.mcap")
        assert isinstance(done.exception, ConfigError), done.output
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--as-fast-as-possible"], "go together"),
        (["--scene", "hall"], "--scene goes with --as-fast-as-possible only"),
        (["--as-fast-as-possible", "--out", "x", "--loop"], "--loop goes without"),
        (["--as-fast-as-possible", "--out", "x", "--rate", "2"], "--rate goes without"),
        (["--as-fast-as-possible", "--out", "x", "--camera", "front"], "--camera needs --scene"),
    ],
)
def test_options_of_a_replay_that_would_do_nothing_are_refused(
    options: list[str], words: str
) -> None:
    done = given("replay", "absent.mcap", *options)
    assert isinstance(done.exception, ConfigError)
    assert words in str(done.exception)
