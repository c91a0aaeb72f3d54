"""The composition root: builds the graph that a configuration describes and runs it.

One asyncio loop holds sources, world, scheduler and control; relay threads hold the images; HTTP
has its own thread. Shutdown runs against the arrows and takes at most 2 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import machine_ns, now_ns
from vil_bridge.core.errors import RequiredSourceLost
from vil_bridge.daemon.context import Judgement, build
from vil_bridge.daemon.controls import BridgeControls
from vil_bridge.daemon.http_access import make_tls, show_login_link
from vil_bridge.daemon.moving_bodies import BodySender
from vil_bridge.daemon.readiness import Readiness
from vil_bridge.daemon.realtime import exempt_from_scheduler, prepare_process
from vil_bridge.daemon.snapshots import (
    PAGE_COUNTS,
    StatusReporter,
    camera_points,
    dropped_frames,
    ledger_of,
)
from vil_bridge.interfaces.ports import Emit
from vil_bridge.monitoring.event_log import EventLog
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.recording.packet_capture import capturing
from vil_bridge.runtime.heap import exempt_from_collector, freeze_heap
from vil_bridge.web.server import HttpServer, bind_http

if TYPE_CHECKING:
    from fastapi import FastAPI

    from vil_bridge.daemon.http_app import HttpApp

logger = logging.getLogger(__name__)

_CHECK_PERIOD_S: Final = 0.2
_INTERRUPTED: Final = 130
_BUILDING: Final = threading.Lock()
"""Held while an HTTP application is built.

Pydantic cannot make the schema of one type in two threads at once.
"""


class Bridge:
    """A whole bridge, built and not yet running.

    Its parts (``context``) and the services that work on them.

    Args:
        config: what to run.
        reread: reads the configuration again, when people or SIGHUP ask for that; None = there is
            no file.

    Attributes:
        web: the HTTP application, which the HTTP thread builds: pages wait for it, poses do not.

    Raises:
        ConfigError: a plug-in or an address cannot be had.
        SinkError: a stream's port cannot be bound.
    """

    web: HttpApp

    def __init__(
        self, config: BridgeConfig, reread: Callable[[], BridgeConfig] | None = None
    ) -> None:
        judgement = Judgement(
            status=lambda: self.reporter.summary_status(),
            status_line=lambda: self.reporter.status_line(),
            camera_problem=lambda camera: self.readiness.for_readers(camera),
            in_force=lambda: self.controls.in_force(),
            ledger=lambda camera, last: ledger_of(self.context, camera, last),
        )
        heap_is_frozen = freeze_heap()  # before the first thread
        self.context = build(config, judgement, {"heap_kept": heap_is_frozen})
        self.controls = BridgeControls(self.context, reread)
        self.readiness = Readiness(self.context)
        self.reporter = StatusReporter(self.context, self.readiness, lambda: self.http, self._pages)
        self.log = EventLog()
        self._web_is_built = False
        access = self.context.access
        http = config.http
        tls = make_tls(http)
        listening = bind_http(http.bind, http.port)
        self.http = HttpServer(self.build_web, listening, tls, access.counters, access.peer_faults)

    def snapshot(self) -> BridgeSnapshot:
        """Return the whole bridge as people read it; any thread."""
        return self.reporter.snapshot()

    def build_web(self) -> FastAPI:
        """Build the HTTP application.

        In the HTTP thread, since that and FastAPI take a third of a start.
        """
        from vil_bridge.daemon.http_app import HttpApp

        with _BUILDING:
            self.web = HttpApp(self.context, self.controls, self.reporter, self.log)
        self._web_is_built = True
        exempt_from_collector()
        return self.web.app

    def _pages(self) -> dict[str, int]:
        return self.web.pages() if self._web_is_built else dict.fromkeys(PAGE_COUNTS, 0)

    def _close_web(self) -> None:
        if self._web_is_built:
            self.web.close()

    async def run(self) -> None:
        """Run until SIGINT or SIGTERM.

        Raises:
            ExceptionGroup: a component has a bug.
            SinkError: the control channel cannot be bound.
        """
        context = self.context
        context.loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        with _signals(stop, self.controls.on_hangup):
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(context.health.loop_errors.caught())
                await self._start(stack)
                async with asyncio.TaskGroup() as group:
                    tasks = self._start_sources(group)
                    context.outputs.start(group, context.world)
                    tasks.append(group.create_task(self._check(), name="watch"))
                    bodies = BodySender(context.config, context.world, context.for_sources.vehicles)
                    if bodies.needed:
                        tasks.append(group.create_task(bodies.run(), name="bodies"))
                    if context.publisher is not None:
                        tasks.append(group.create_task(context.publisher.run(), name="publish"))
                    for name, service in context.services.items():
                        tasks.append(group.create_task(service.run(), name=name))
                    logger.info(
                        "running: stream %s, status page %s", context.hub.endpoint, self.http.url
                    )
                    show_login_link(context.access, self.http.url)
                    context.health.watchdog.ready()
                    await stop.wait()
                    context.health.watchdog.stopping()
                    context.outputs.stop()
                    for task in tasks:
                        task.cancel()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """Start everything except the sources; register cleanup in reverse order."""
        context = self.context
        stack.enter_context(context.simulation.passing())
        stack.push_async_callback(context.scenes.close)
        self.log.open()
        stack.callback(self.log.close)
        stack.callback(self.http.stop)
        stack.callback(self._close_web)
        await context.hub.start()
        for service in context.services.values():
            stack.push_async_callback(service.end)
            await service.begin()
        self.http.start()
        sources = [(runner.source, runner.status) for runner in context.sources.values()]
        stack.enter_context(capturing(context.config.debug.packet_capture, sources))
        # Threads inherit their priority: the relays start after this.
        context.health.startup |= prepare_process(context.config.realtime.fifo_priority)
        exempt_from_scheduler(self.http.thread)
        stack.push_async_callback(asyncio.to_thread, context.hub.end)  # aiozmq closes a turn later
        stack.callback(context.hub.close)
        for client in context.pool.renderers.values():
            stack.callback(client.close)
        stack.callback(context.outputs.close)
        for camera in context.cameras.values():
            stack.callback(camera.relay.close)
            stack.callback(camera.sinks.close)
        stack.push_async_callback(context.outputs.settle)
        context.pool.start()
        stack.callback(context.pool.stop)
        if context.publisher is not None:
            stack.callback(context.publisher.stop)
            context.publisher.start()
        context.health.watchdog.start()
        stack.callback(context.health.watchdog.stop)

    def _start_sources(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run each source.

        Behind the gate its events go to the world first, then to those who look on.
        """
        context = self.context
        receivers: list[Emit] = [
            context.world.ingest,
            context.health.subject_check.record,
        ]
        for service in context.services.values():
            receivers.extend(service.taps())
        if context.publisher is not None:
            receivers.append(context.publisher.on_event)
        return [
            group.create_task(runner.run(context.for_sources, receivers), name=name)
            for name, runner in context.sources.items()
        ]

    async def _check(self) -> None:
        """Check everything a few times a second.

        Raises:
            Exception: a thread or callback has a bug.
            RequiredSourceLost: a source that the configuration requires stays away.
        """
        context = self.context
        while True:
            await asyncio.sleep(_CHECK_PERIOD_S)
            for name, service in context.services.items():
                self.readiness.findings[name] = await asyncio.to_thread(service.check)
            await asyncio.to_thread(
                context.health.history.add, machine_ns(), lambda: camera_points(context)
            )
            context.health.subject_check.check(
                {name: runner.status for name, runner in context.sources.items()}
            )
            context.health.overload.check(now_ns(), *dropped_frames(context))
            context.health.descriptors.check()
            self.readiness.check()
            self.http.check()
            for failed in (
                context.pool.failed,
                context.health.loop_errors.failed,
                self.http.failed,
            ):
                if failed is not None:
                    raise failed
            for name, runner in context.sources.items():
                limit_s = getattr(context.config.sources[name], "required_within_s", None)
                silent_s = runner.silent_s(now_ns())
                if limit_s is not None and silent_s > limit_s:
                    report = runner.status.report()
                    raise RequiredSourceLost(
                        f"source {name} is required and {report.state}: {report.reason}"
                    )


@contextlib.contextmanager
def _signals(stop: asyncio.Event, on_hangup: Callable[[], object]) -> Iterator[None]:
    """Stop at SIGINT or SIGTERM, and end the process at once at a second one. SIGHUP is passed on.

    SIGHUP stops the bridge too when it means that the terminal is gone in which the bridge was
    started.
    """
    hangs_on_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()

    def on_sighup() -> None:
        if hangs_on_terminal and not _has_terminal():
            stop.set()
        else:
            on_hangup()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(_INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, on_signal)
    loop.add_signal_handler(signal.SIGHUP, on_sighup)
    try:
        yield
    finally:
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(sig)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
