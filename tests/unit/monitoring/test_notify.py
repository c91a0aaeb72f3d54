"""What systemd hears, on a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.common import PATIENCE_S
from vil_bridge.monitoring.systemd_notify import ServiceManager


class Manager:
    """The listening end."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(PATIENCE_S)

    def heard(self) -> str:
        return self._socket.recv(4096).decode()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[Manager, str]]:
    path = str(tmp_path / "notify")
    made = Manager(path)
    yield made, path
    made.close()


@pytest.mark.wire
def test_the_manager_hears_each_word_in_its_own_datagram(manager: tuple[Manager, str]) -> None:
    ears, path = manager
    service = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "10000000"})
    assert service.present and service.watchdog_s == 10.0
    service.ready()
    service.status("not ready: renderer hall\nis waiting")
    service.alive()
    service.stopping()
    assert [ears.heard() for _ in range(4)] == [
        "READY=1",
        "STATUS=not ready: renderer hall is waiting",
        "WATCHDOG=1",
        "STOPPING=1",
    ]
    service.close()
    service.close()


@pytest.mark.wire
def test_abstract_addresses_are_known() -> None:
    name = f"vil-bridge-test-{os.getpid()}"
    ears = Manager(f"\0{name}")
    service = ServiceManager({"NOTIFY_SOCKET": f"@{name}"})
    service.ready()
    assert ears.heard() == "READY=1"
    service.close()
    ears.close()


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": "/run/x"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "nonsense"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "9"},
    ],
)
def test_no_watchdog_unless_it_is_ours(environ: dict[str, str]) -> None:
    service = ServiceManager(environ)
    assert service.watchdog_s is None
    assert service.present is ("NOTIFY_SOCKET" in environ)
    service.close()


@pytest.mark.wire
def test_a_manager_that_is_gone_or_does_not_read_stops_nobody(
    manager: tuple[Manager, str], caplog: pytest.LogCaptureFixture
) -> None:
    ears, path = manager
    service = ServiceManager({"NOTIFY_SOCKET": path})
    for _ in range(10_000):
        service.alive()
    assert service.present and not caplog.records
    ears.close()
    service.alive()
    service.alive()
    assert len(caplog.records) == 1
    service.close()


@pytest.mark.wire
def test_a_manager_that_comes_back_hears_the_signs_of_life(manager: tuple[Manager, str]) -> None:
    ears, path = manager
    service = ServiceManager({"NOTIFY_SOCKET": path})
    ears.close()
    service.alive()
    Path(path).unlink()
    again = Manager(path)
    service.alive()
    assert again.heard() == "WATCHDOG=1"
    again.close()
    service.close()
