"""A bug in an output stays in it.

Its reason is in its status, it starts again, and all else goes on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Literal

import pytest

from tests.support.bridge_rig import bridge_with_camera, recordings_of
from tests.support.dashboard_rig import draw
from tests.support.events import until
from tests.support.outputs import INFO, Flight, header, no_vehicles, picture
from vil_bridge import registry
from vil_bridge.config.base import OutputConfigBase
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ActorKind, ImageArray, SourceReset
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.interfaces.event_loop import LoopErrors
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.outputs.federation.publisher import PublishedActor, Publisher
from vil_bridge.outputs.sink_thread import SinkThread
from vil_bridge.pipeline.camera_relay import CameraRelay, FanOut
from vil_bridge.protocols.federation.messages import ActorInfo, encode_describe
from vil_bridge.protocols.federation.zmq_link import ZmqPublisherLink, ZmqSubscriberLink
from vil_bridge.recording.write_queue import WriteQueue
from vil_bridge.runtime import supervisor
from vil_bridge.runtime.supervisor import Status


class Panic(BaseException):
    """The exception of a library written in Rust that meets a bug of its own."""


class BuggyConfig(OutputConfigBase):
    type: Literal["buggy"] = "buggy"
    cameras: tuple[str, ...] = ("front",)


class BuggyOutput:
    """An output whose parts fail when the test says so."""

    made: ClassVar[dict[str, BuggyOutput]] = {}

    def __init__(self, name: str, config: BuggyConfig) -> None:
        self.name, self.status, self.config = name, Status(name), config
        self.runs = 0
        self.bugs: dict[str, BaseException] = {}
        self.offered: list[int] = []
        self.sent: list[int] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.made[name] = self

    def meet(self, place: str) -> None:
        """Fail if there is a bug at this place."""
        if place in self.bugs:
            raise self.bugs.pop(place)

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        self.meet("frame_sink")
        thread = SinkThread(
            f"{self.name}-thread", {("rgb", "compensated")}, self._send, self.status
        )
        return _Sink(self, thread)

    def _send(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.meet("send")
        if "callback of send" in self.bugs and self.loop is not None:
            self.loop.call_soon_threadsafe(self.meet, "callback of send")
        self.sent.append(header.frame_id)

    async def run(self, world: WorldView) -> None:
        self.runs += 1
        self.loop = loop = asyncio.get_running_loop()
        readable, writable = socket.socketpair()
        loop.add_reader(readable, self._on_readable, readable)
        try:
            self.status.running()
            while True:
                self.meet("run")
                loop.call_later(0.001, self.meet, "callback")
                loop.create_task(self._forgotten())  # noqa: RUF006 - the mistake that it stands for
                if "reader" in self.bugs:
                    writable.send(b"x")
                await asyncio.sleep(0.005)
        finally:
            loop.remove_reader(readable)
            readable.close()
            writable.close()
            self.meet("end of run")

    async def _forgotten(self) -> None:
        self.meet("task")

    def _on_readable(self, readable: socket.socket) -> None:
        readable.recv(1)
        self.meet("reader")

    def close(self) -> None:
        self.meet("close")


class _Sink:
    def __init__(self, output: BuggyOutput, thread: SinkThread) -> None:
        self._output, self._thread = output, thread

    def wanted(self, modality: str, variant: str) -> bool:
        self._output.meet("wanted")
        return self._thread.wanted(modality, variant)

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self._output.meet("offer")
        self._output.offered.append(header.frame_id)
        self._thread.offer(header, pixels)

    def flush(self) -> None:
        self._output.meet("flush")

    def close(self) -> None:
        self._thread.close()
        self._output.meet("sink.close")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = registry.Plugin(f"{__name__}:BuggyConfig", f"{__name__}:BuggyOutput")
    monkeypatch.setitem(registry.BUILT_IN["outputs"], "buggy", plugin)
    monkeypatch.setattr(supervisor, "BACKOFF_FIRST_S", 0.01)
    BuggyOutput.made.clear()


class Running:
    """Two outputs of one camera, and the camera's relay thread in the test's own."""

    def __init__(self, ways: OutputManager, fan: FanOut, errors: LoopErrors) -> None:
        self.ways, self.fan, self.errors = ways, fan, errors
        self.buggy, self.other = BuggyOutput.made["buggy"], BuggyOutput.made["other"]
        self.frame_id = 0

    def show(self) -> None:
        """Hand over one more picture, as a relay does."""
        self.frame_id += 1
        self.fan.flush()
        if self.fan.wanted("rgb", "compensated"):
            self.fan.offer(header(self.frame_id, self.frame_id), picture(self.frame_id))


@pytest.fixture
async def outputs() -> AsyncIterator[Running]:
    ways, fan, errors = (
        OutputManager({"buggy": BuggyConfig(), "other": BuggyConfig()}, no_vehicles),
        FanOut(()),
        LoopErrors(),
    )
    ways.connect(lambda: INFO, fan)
    with errors.caught():
        async with asyncio.TaskGroup() as group:
            ways.start(group, Flight().world)
            running = Running(ways, fan, errors)
            await until(lambda: running.buggy.runs == 1 and running.other.runs == 1)
            yield running
            ways.stop()
    fan.close()
    ways.close()


PLACES: Final = (
    "run",
    "task",
    "callback",
    "callback of send",
    "reader",
    "wanted",
    "offer",
    "flush",
    "send",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a bug"), Panic("a bug")], ids=["bug", "panic"]
)
async def test_a_bug_anywhere_stays_in_the_output(
    outputs: Running, place: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    buggy = outputs.buggy

    def shown(holds: Callable[[], bool]) -> bool:
        outputs.show()
        return holds()

    buggy.bugs[place] = error
    await until(lambda: shown(lambda: buggy.runs > 1))
    restarted_at = outputs.frame_id
    await until(lambda: shown(lambda: bool(buggy.sent) and buggy.sent[-1] > restarted_at))
    found = f"{type(error).__name__}: a bug. Report it with the traceback in the log"
    through = "RuntimeError: buggy-thread failed: " if place == "send" else ""
    assert buggy.status.report().last_error == f"bug: {through}{found}"
    report = buggy.status.report()
    assert (report.state, report.retries) == ("running", 1)
    assert any(r.levelno == logging.ERROR and r.exc_info for r in caplog.records)
    assert outputs.errors.failed is None
    other = outputs.other
    assert other.runs == 1 and other.status.report().retries == 0
    assert other.offered == list(range(1, outputs.frame_id + 1))


async def test_a_bug_of_the_bridge_itself_is_still_one(outputs: Running) -> None:
    error = ZeroDivisionError("not of an output")

    def fail() -> None:
        raise error

    asyncio.get_running_loop().call_soon(fail)
    await until(lambda: outputs.errors.failed is error)
    assert outputs.buggy.runs == 1


async def test_an_exit_of_an_output_is_not_one_of_the_bridge(outputs: Running) -> None:
    outputs.buggy.bugs["run"] = SystemExit(3)
    await until(lambda: outputs.buggy.runs > 1)
    assert str(outputs.buggy.status.report().last_error).startswith("bug: SystemExit: 3.")


async def test_an_output_whose_run_is_no_coroutine_fails_alone(
    outputs: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BuggyOutput, "run", lambda _self: None)
    outputs.buggy.bugs["callback"] = ZeroDivisionError("ends the run before")
    await until(lambda: "TypeError" in str(outputs.buggy.status.report().last_error))
    assert outputs.errors.failed is None and outputs.other.status.report().retries == 0


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a bug"), Panic("a bug")], ids=["bug", "panic"]
)
async def test_an_output_whose_end_has_a_bug_holds_up_no_other(
    outputs: Running, error: BaseException
) -> None:
    for place in ("close", "sink.close", "end of run"):
        outputs.buggy.bugs[place] = error
    await outputs.ways.exchange({"other": BuggyConfig()})
    assert list(outputs.ways.outputs) == ["other"]
    assert not outputs.buggy.bugs and outputs.errors.failed is None


async def test_an_output_that_waits_to_start_again_is_exchanged_at_once(
    outputs: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_FIRST_S", 600.0)
    buggy = outputs.buggy
    for _ in range(2):  # the first back-off began with the short one
        buggy.bugs["run"] = ZeroDivisionError("a bug")
        await until(lambda: not buggy.bugs)
    await outputs.ways.exchange({"other": BuggyConfig()})
    assert buggy.status.report().state == "stopped"
    outputs.show()
    assert buggy.offered == [] and outputs.other.offered == [1]
    await until(lambda: all(thread.name != "buggy-thread" for thread in threading.enumerate()))


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a bug"), Panic("a bug")], ids=["bug", "panic"]
)
async def test_an_output_that_cannot_be_made_because_of_a_bug_is_refused(
    outputs: Running, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: BuggyOutput, camera: CameraInfo) -> None:
        raise error

    monkeypatch.setattr(BuggyOutput, "frame_sink", broken)
    with pytest.raises(SinkError, match=f"output new has a bug: {type(error).__name__}: a bug"):
        await outputs.ways.exchange(
            {"new": BuggyConfig(), "buggy": BuggyConfig(), "other": BuggyConfig()}
        )
    assert set(outputs.ways.outputs) == {"buggy", "other"}


def _more(count: Callable[[], int], than: int) -> bool:
    return count() > than


@pytest.mark.wire
async def test_a_flight_goes_on_though_an_output_has_bugs() -> None:
    async with bridge_with_camera("actor: world", draw) as bridge:
        await bridge.context.outputs.exchange({"buggy": BuggyConfig()})
        buggy, relay = BuggyOutput.made["buggy"], bridge.context.cameras["front"].relay
        for place in ("offer", "callback", "run"):
            buggy.bugs[place] = ZeroDivisionError(place)
            await until(partial(_more, lambda: buggy.runs, buggy.runs))
            await until(partial(_more, relay.delivered.total, relay.delivered.total() + 5))
            assert f"ZeroDivisionError: {place}" in str(
                bridge.snapshot().outputs["buggy"].report.last_error
            )
        assert (
            bridge.context.pool.failed is None and bridge.context.health.loop_errors.failed is None
        )


def _publisher() -> Publisher:
    actors = [PublishedActor(ActorInfo("drone", ActorKind.VEHICLE), "mocap")]
    return Publisher("here", actors, Flight().world)


async def test_the_loop_gets_its_handlers_back() -> None:
    loop = asyncio.get_running_loop()
    handlers = (
        (lambda loop, context: None),
        (lambda loop, coro, **options: asyncio.Task(coro, loop=loop, **options)),
    )
    loop.set_exception_handler(handlers[0])
    loop.set_task_factory(handlers[1])
    with LoopErrors().caught():
        assert (loop.get_exception_handler(), loop.get_task_factory()) != handlers
    assert (loop.get_exception_handler(), loop.get_task_factory()) == handlers


@pytest.mark.wire
async def test_a_bug_of_the_publisher_silences_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, errors = _publisher(), LoopErrors()
    bugs = [ZeroDivisionError("a bug")]

    def answer(request: bytes) -> bytes:
        if bugs:
            raise bugs.pop()
        return request

    link = ZmqPublisherLink("tcp://127.0.0.1:0", answer)
    publisher.links.append(link)
    received: list[bytes] = []
    with errors.caught():
        publisher.start()
        keeping = asyncio.create_task(publisher.run())
        asking = ZmqSubscriberLink(link.endpoint, lambda data, _t_ns: received.append(data))
        await asking.open()
        await until(
            lambda: (asking.ask(encode_describe()), publisher.status.report().retries > 0)[1]
        )
        assert str(publisher.status.report().last_error).startswith(
            "bug: ZeroDivisionError: a bug."
        )
        await until(
            lambda: (
                asking.ask(encode_describe()),
                publisher.report()["state"] == "running" and received,
            )[1]
        )
        monkeypatch.setattr(publisher._world, "state_of", lambda _name: 1 / 0)
        publisher.on_frame("mocap")
        await until(lambda: publisher.status.report().retries > 1)
        assert errors.failed is None and not keeping.done()
    asking.close()
    keeping.cancel()
    await asyncio.wait([keeping])
    publisher.stop()


def _newest_ns(relay: CameraRelay) -> int:
    return relay.newest[2] if relay.newest is not None else 0


@pytest.mark.wire
async def test_a_recording_that_cannot_be_fed_fails_and_the_flight_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: WriteQueue, _thing: object) -> None:
        raise ZeroDivisionError("a bug")

    async with bridge_with_camera("actor: world", draw) as bridge:
        records = recordings_of(bridge)
        relay = bridge.context.cameras["front"].relay
        for method in ("enqueue_picture", "enqueue_event"):
            await asyncio.to_thread(records.start_file, tmp_path / f"{method}.mcap")
            with monkeypatch.context() as patched:
                patched.setattr(WriteQueue, method, broken)
                if method == "enqueue_event":
                    records.record(SourceReset("mocap", "restarted"))
                await until(lambda: records.recording().state == "failed")
            await until(partial(_more, lambda: _newest_ns(relay), _newest_ns(relay)))
            assert "cannot be handed over" in records.recording().reason
        assert bridge.context.pool.failed is None
