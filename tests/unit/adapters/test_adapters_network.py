"""What several adapters ask of the network, and what they say of missing subjects."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from vil_adapters.sessions.reports import ExpectedSubjects
from vil_bridge.core.errors import ConfigError
from vil_bridge.registry import search_of, searchable_sources
from vil_bridge.runtime.network import host_and_port, local_address, resolve


def test_a_target_is_a_host_with_or_without_a_port() -> None:
    assert host_and_port("lab-pc", 801) == ("lab-pc", 801)
    assert host_and_port("192.168.1.10:65535", 801) == ("192.168.1.10", 65535)


@pytest.mark.parametrize(
    "target", ["", ":801", "lab-pc:", "lab-pc:0", "lab-pc:65536", "lab-pc:-1", "lab-pc:x", "a:1:2"]
)
async def test_what_is_no_target_is_refused_by_every_search(target: str) -> None:
    """A slip of the pen is told; it neither ends the program nor searches elsewhere."""
    asked = [search_of(name) for name in searchable_sources()]
    assert len(asked) >= 5
    for search in asked:
        with pytest.raises(ConfigError, match="HOST:PORT"):
            await search((target,), 0.2)


@pytest.mark.wire
async def test_names_become_addresses_and_bad_ones_an_oserror() -> None:
    assert await resolve("127.0.0.1", 801) == "127.0.0.1"
    for name in ("no-such-computer.invalid", "a..b", "x" * 64 + ".lab"):
        with pytest.raises(OSError, match=r"name|Name|host|service"):
            await resolve(name, 801)
    assert local_address("127.0.0.1", 801) == "127.0.0.1"


@pytest.fixture
def silent_name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nobody answers what is asked of it until the event is set."""
    answers, ask = threading.Event(), socket.getaddrinfo

    def wait(*args: object, **options: object) -> object:
        answers.wait(60.0)
        answers.set()  # so that a program that waits for it ends some day
        return ask(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    yield answers
    answers.set()


async def test_a_silent_name_server_keeps_no_thread_of_the_loop_busy(
    silent_name_server: threading.Event,
) -> None:
    # More than any loop's threads.
    asked = [asyncio.create_task(resolve("127.0.0.1", 801)) for _ in range(40)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(sum, (1, 2)) == 3
    assert not any(task.done() for task in asked)
    asked[0].cancel()
    await asyncio.wait(asked[:1])
    silent_name_server.set()
    assert set(await asyncio.gather(*asked[1:])) == {"127.0.0.1"}
    assert asked[0].cancelled()


def test_a_silent_name_server_keeps_no_program_from_its_end(
    silent_name_server: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[asyncio.Task[str]] = []

    async def end_in_the_midst() -> None:
        left.append(asyncio.create_task(resolve("127.0.0.1", 801)))
        await asyncio.sleep(0)

    program = threading.Thread(target=asyncio.run, args=(end_in_the_midst(),), daemon=True)
    program.start()
    program.join(60.0)
    assert not program.is_alive()
    assert left[0].cancelled()
    (asker,) = (thread for thread in threading.enumerate() if thread.name == "resolve")
    assert asker.daemon
    silent_name_server.set()
    asker.join(60.0)
    assert not asker.is_alive()
    assert not caplog.records  # a loop that is gone is no trouble for who answers late


def test_a_missing_subject_is_named_once_for_each_time_that_it_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = ExpectedSubjects("lab", ("cf1", "wand"))
    with caplog.at_level(logging.WARNING):
        for seen in (("CF1", "wand"), ("CF1", "wand"), (), ("cf1", "wand"), ("wand",)):
            wanted.compare(seen)
    assert [record.getMessage() for record in caplog.records] == [
        "lab: config wants 'cf1'; stream has 'CF1', 'wand'",
        "lab: config wants 'cf1', 'wand'; stream has no subjects",
        "lab: config wants 'cf1'; stream has 'wand'",
    ]
