"""The composition root: builds the graph that a configuration describes and runs it.

One asyncio loop holds sources, world, scheduler and control; relay threads hold the images; HTTP has
its own thread. Shutdown runs against the arrows and takes at most 2 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from vil_bridge import registry
from vil_bridge.config.base import PluginConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S, WallClock, machine_ns, now_ns
from vil_bridge.core.errors import RendererError, RequiredSourceLost
from vil_bridge.core.loop_errors import LoopErrors
from vil_bridge.core.onboard_imu import IMU_INBOX
from vil_bridge.core.ports import Emit, RendererClient
from vil_bridge.core.supervisor import Status, supervise
from vil_bridge.core.types import ImuSample, SourceEvent, SourceFrame
from vil_bridge.daemon.cameras import CameraRunner
from vil_bridge.daemon.controls import BridgeControls
from vil_bridge.daemon.factories import build_world, make_guard, make_publisher
from vil_bridge.daemon.fault_injection import FaultInjector
from vil_bridge.daemon.http_access import make_access, make_tls, show_login_link
from vil_bridge.daemon.http_app import HttpApp
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.daemon.readiness import Readiness
from vil_bridge.daemon.realtime import keep_heap, keep_running, prepare_process
from vil_bridge.daemon.recording_service import RecordingService
from vil_bridge.daemon.room_monitor import make_watch
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.daemon.snapshots import brief_status_of, points_of, shed_of, snapshot_of, words_of
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.daemon.subject_check import SubjectCheck
from vil_bridge.daemon.vehicle_commands import vehicle_commands
from vil_bridge.monitoring.camera_history import HistoryRing
from vil_bridge.monitoring.overload import OverloadDetector
from vil_bridge.monitoring.process_stats import DescriptorCheck
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.monitoring.watchdog import Watchdog
from vil_bridge.outputs.stream.hub import StreamHub
from vil_bridge.pipeline.renderer_pool import RendererPool
from vil_bridge.recording.packet_capture import capturing
from vil_bridge.web.live.previews import shown_jpeg
from vil_bridge.web.server import HttpServer, bind_http

__all__ = ["Bridge", "run_daemon"]

logger = logging.getLogger(__name__)

_WATCH_S: Final = 0.2
_INTERRUPTED: Final = 130
_PREVIEW_LIMIT_NS: Final = 3 * NS_PER_S


class Bridge:
    """A whole bridge, built and not yet running.

    Raises:
        ConfigError: a plug-in or an address cannot be had.
        SinkError: a stream's port cannot be bound.
    """

    def __init__(
        self, config: BridgeConfig, reread: Callable[[], BridgeConfig] | None = None, record: Path | None = None
    ) -> None:
        self.config = config
        self._record = record
        self.controls = BridgeControls(self, reread)
        self.started_ns = machine_ns()
        self.wall_clock = WallClock.of_run()
        self.startup: dict[str, Any] = {"heap_kept": keep_heap()}
        self.time = SimulationClock(config.simulation)
        self.sources = {n: SourceRunner(n, c) for n, c in config.sources.items()}
        self.world = build_world(config)
        self.publisher = make_publisher(config, self.world)
        self.room_watch = make_watch(config, self.world)
        up_axes = {n: axis for n, c in config.sources.items() if (axis := getattr(c, "up_axis", None))}
        self.subject_watch = SubjectCheck(config.actors, up_axes)
        self.renderers: dict[str, RendererClient] = {
            name: _make_renderer(name, renderer) for name, renderer in config.renderers.items()
        }
        self.ways_out = OutputManager(config.outputs)
        self.access, tls = make_access(config.http), make_tls(config.http)
        self.stream_guard = make_guard(config.stream)
        first = config.stream.data_port
        self.paths: dict[str, CameraRunner] = {}
        for i, (name, camera) in enumerate(config.every_camera().items()):
            left = self.paths.get(config.left_of(name))
            port = first + i if first else 0
            guard = self.stream_guard
            self.paths[name] = CameraRunner(name, camera, config, self.world, port, guard, self.ways_out, left)
        self.hub = StreamHub(
            config.stream.bind,
            on_received=lambda camera, frame_id, t_ns: self.paths[camera].relay.received(frame_id, t_ns),
            status=lambda: brief_status_of(self),
            commands=vehicle_commands(),
            refuses_command=self.access.refuses_command,
            udp_port=config.stream.udp_port,
            udp_rate_mbps=config.stream.udp_rate_mbps,
            guard=self.stream_guard,
            on_imu=IMU_INBOX.deliver,
            problem=lambda camera: self.readiness.for_readers(camera),
        )
        for path in self.paths.values():
            self.hub.add_camera(path.sink, path.told, path.relay.wake)
        self.pool = RendererPool(
            self.renderers,
            {name: path.relay for name, path in self.paths.items()},
            {name: path.wish(config) for name, path in self.paths.items()},
            self.world,
            waits=config.simulation.wait_for_cameras,
        )
        self.vitals = Watchdog(self.pool.busy_s, lambda: words_of(self))
        self.loop_errors = LoopErrors()
        self.overload_watch = OverloadDetector()
        self.descriptors = DescriptorCheck()
        self.history = HistoryRing(tuple(self.paths), self.wall_clock)
        self.readiness = Readiness(self)
        self.records = RecordingService(self)
        self.web = HttpApp(self)
        listening = bind_http(config.http.bind, config.http.port)
        self.http = HttpServer(self.web.app, listening, tls, self.access.counters, self.access.peer_faults)

    async def run(self) -> None:
        """Run until SIGINT or SIGTERM.

        Raises:
            ExceptionGroup: a component has a bug.
            SinkError: the control channel cannot be bound.
        """
        self.loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        with _signals(stop, self.controls.on_hangup):
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(self.loop_errors.caught())
                await self._start(stack)
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._supervise(line), name=n) for n, line in self.sources.items()]
                    self.ways_out.start(group, self.world)
                    tasks.append(group.create_task(self._watch(), name="watch"))
                    if self.publisher is not None:
                        tasks.append(group.create_task(self.publisher.keep(), name="publish"))
                    logger.info("running: stream %s, status page %s", self.hub.endpoint, self.http.url)
                    show_login_link(self.access, self.http.url)
                    self.vitals.ready()
                    await stop.wait()
                    self.vitals.stopping()
                    self.ways_out.stop()
                    for task in tasks:
                        task.cancel()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """Everything but the sources; registered for the way back, which runs against the arrows."""
        stack.enter_context(self.time.passing())
        self.web.open()
        stack.callback(self.http.stop)
        stack.callback(self.web.close)
        await self.hub.start()
        self.http.start()
        stack.callback(self.records.close)
        stack.push_async_callback(self.records.player.end)
        if self._record is not None:
            self.records.start_file(self._record)
        elif self.config.record.at_start:
            self.records.start(None)
        stack.enter_context(
            capturing(self.config.debug.packet_capture, [(s.source, s.status) for s in self.sources.values()])
        )
        # Threads inherit their priority: the relays start after this.
        self.startup |= prepare_process(self.config.realtime.fifo_priority)
        keep_running(self.http.thread)
        if self.stream_guard is not None:
            stack.push_async_callback(asyncio.to_thread, self.stream_guard.end)  # aiozmq closes a turn later
        stack.callback(self.hub.close)
        for client in self.renderers.values():
            stack.callback(client.close)
        stack.callback(self.ways_out.close)
        for path in self.paths.values():
            stack.callback(path.relay.close)
            stack.callback(path.sinks.close)
        stack.push_async_callback(self.ways_out.settle)
        self.pool.start()
        stack.callback(self.pool.stop)
        if self.publisher is not None:
            stack.callback(self.publisher.stop)
            self.publisher.start()
        self.vitals.start()
        stack.callback(self.vitals.stop)

    async def _supervise(self, line: SourceRunner) -> None:
        into_world = self.records.player.gate(line.status, self._emitter(line.meter))
        if line.subjects is not None:
            into_world = line.subjects.before(into_world)
        with contextlib.closing(FaultInjector(line.faults, into_world, line.status)) as line.fault_injector:
            emit = line.fault_injector.emit

            async def run(status: Status) -> None:
                await line.source.run(emit, status)

            await supervise(run, line.status)

    def _emitter(self, meter: Meter) -> Emit:
        ingest, publisher, note = self.world.ingest, self.publisher, self.subject_watch.take
        record = self.records.note

        def emit(event: SourceEvent) -> None:
            if isinstance(event, (SourceFrame, ImuSample)):
                meter.mark(event.t_arrival_ns)
            ingest(event)
            note(event)
            record(event)
            if publisher is not None and isinstance(event, SourceFrame):
                publisher.on_frame(event.source)

        return emit

    async def _watch(self) -> None:
        """Looks over the rooms; ends the bridge when a thread or callback has a bug or a required source stays away."""
        while True:
            await asyncio.sleep(_WATCH_S)
            await asyncio.to_thread(self.room_watch.look)
            await asyncio.to_thread(self.history.add, machine_ns(), lambda: points_of(self))
            self.subject_watch.look({name: line.status for name, line in self.sources.items()})
            self.overload_watch.look(now_ns(), *shed_of(self))
            self.descriptors.look()
            self.readiness.check()
            self.http.check()
            for failed in (self.pool.failed, self.loop_errors.failed):
                if failed is not None:
                    raise failed
            for name, line in self.sources.items():
                limit_s = getattr(self.config.sources[name], "required_within_s", None)
                silent_s = line.silent_s(now_ns())
                if limit_s is not None and silent_s > limit_s:
                    report = line.status.report()
                    raise RequiredSourceLost(f"source {name} is required and {report.state}: {report.reason}")

    # --- read by HTTP and control; any thread ---------------------------------------------------

    def snapshot(self) -> BridgeSnapshot:
        """What people read."""
        return snapshot_of(self)

    def preview(self, camera: str) -> bytes | None:
        """A camera's newest picture as JPEG."""
        path = self.paths.get(camera)
        newest = path.relay.newest if path is not None else None
        if newest is None or newest[0].blank or now_ns() - newest[2] > _PREVIEW_LIMIT_NS:
            return None
        return shown_jpeg(newest[1])


def _make_renderer(name: str, config: PluginConfig) -> RendererClient:
    """Raises RendererError: a port is taken."""
    try:
        client: RendererClient = registry.create("renderers", name, config)
    except RendererError as exc:
        raise RendererError(f"renderers.{name}: {exc}") from exc
    return client


@contextlib.contextmanager
def _signals(stop: asyncio.Event, on_hangup: Callable[[], object]) -> Iterator[None]:
    """SIGINT or SIGTERM asks to stop; a second one ends the process at once. SIGHUP is passed on.

    Unless it means that the terminal is gone in which the bridge was started: then nobody is left who looks after it.
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


def run_daemon(
    config: BridgeConfig, reread: Callable[[], BridgeConfig] | None = None, record: Path | None = None
) -> None:
    """Run a bridge until it is told to stop.

    Args:
        config: what to run.
        reread: reads it again, when people or SIGHUP ask for that; None = there is no file.
        record: file to record into from the start; None = as the configuration says.

    Raises:
        RecordingError: the file to record into exists, or cannot be created.
        RequiredSourceLost: a source that the configuration requires stayed away.
        ExceptionGroup: a component has a bug.
    """
    bridge = Bridge(config, reread, record)
    try:
        asyncio.run(bridge.run())
    except ExceptionGroup as group:
        lost, bugs = group.split(RequiredSourceLost)
        if lost is None or bugs is not None:
            raise
        raise lost.exceptions[0] from None
    logger.info("stopped: %s", json.dumps({n: dict(p.relay.delivered) for n, p in bridge.paths.items()}))
