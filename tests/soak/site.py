"""A whole bridge whose every part and every link can be broken: what the drills work on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import websockets.sync.client
import yaml

from tests.soak.patient import PatientRig
from tests.soak.plant import RADIO
from tests.soak.readers import EVERYTHING
from tests.support.common import ROOT, wait_until
from tests.support.harness import sockets_of, trouble
from tests.support.programs import VIL_BRIDGE
from vil_adapters.lab.link import LinkEmulator
from vil_adapters.lab.link_spec import LinkSpec
from vil_simulation.demo.child_processes import free_ports

NAMES: Final = ("daemon", "renderer", "lab", "client", "seat")
LIMIT_S: Final = 60.0
"""Time-out of what must come sooner or later; a busy machine starts five processes for long."""
LIBFAKETIME: Final = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class Site(PatientRig):
    """Lab, renderer, bridge and two readers, one of them behind a radio.

    Links: ``mocap`` (flight room), ``poses`` and ``pictures`` (renderer), ``radio0`` and ``radio1``
    (control and data of the reader ``client``); ``seat`` sits on the bridge's own computer.

    Attributes:
        recordings: the bridge's folder for them.
    """

    def __init__(self, folder: Path) -> None:
        self.recordings = folder / "recordings"
        self._far_ports = free_ports(2, socket.SOCK_STREAM)
        self._mocap_port = free_ports(1, socket.SOCK_DGRAM)[0]
        self._data_port = free_ports(1, socket.SOCK_STREAM)[0]
        super().__init__(folder)
        texts = {
            "mocap": f"udp:{self._mocap_port}={self.command_ports[0]}",
            "poses": f"tcp:{self._far_ports[0]}={self.pose_port}",
            "pictures": f"tcp:{self._far_ports[1]}={self.image_port}",
            "radio0": f"tcp:{RADIO}:{self.stream_port}={self.stream_port}",
            "radio1": f"tcp:{RADIO}:{self._data_port}={self._data_port}",
        }
        self._links = {name: LinkEmulator(LinkSpec.parse(text)) for name, text in texts.items()}
        self._loop = asyncio.new_event_loop()
        self._network = threading.Thread(target=self._loop.run_forever, name="links")

    def _all_commands(self, preset: Path, overrides: Mapping[str, object]) -> dict[str, list[str]]:
        config: dict[str, Any] = yaml.safe_load(
            files("vil_bridge.config.presets").joinpath("demo.yaml").read_text()
        )
        config["sources"]["motive_flight"]["command_port"] = self._mocap_port
        config["sources"]["motive_actor"]["command_port"] = self._udp[2]
        config["sources"]["imu"]["device"] = str(self.imu)
        config["renderers"]["hall"] |= {"pose_port": self.pose_port, "image_port": self.image_port}
        config["actors"]["drone"]["tracking"]["coast_after_ms"] = 150
        config["cameras"] = {
            "front": config["cameras"]["front"] | {"width_px": 160, "height_px": 120}
        }
        config["stream"] = {"bind": self.endpoint, "data_port": self._data_port}
        config["http"] = {"port": self.http_port}
        config["record"] = {"folder": str(self.recordings)}
        written = self.folder / "site.yaml"
        written.write_text(yaml.safe_dump(config))
        commands = super()._all_commands(preset, overrides)
        client = [sys.executable, str(ROOT / "vil_bridge" / "client.py")]
        return {
            "daemon": [*VIL_BRIDGE, "run", str(written)],
            "renderer": [sys.executable, "-m", "tests.support.harness", *map(str, self._far_ports)],
            "lab": commands["lab"],
            "client": [*client, f"tcp://{RADIO}:{self.stream_port}"],
            "seat": [*client, self.endpoint],
        }

    def __enter__(self) -> Site:
        self._network.start()
        for link in self._links.values():
            asyncio.run_coroutine_threadsafe(link.start(), self._loop).result(10.0)
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        for link in self._links.values():
            asyncio.run_coroutine_threadsafe(link.stop(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._network.join()
        self._loop.close()

    # --- processes -----------------------------------------------------------------------------

    def start_all(self) -> None:
        """Start everything and wait until both readers get pictures."""
        for name in NAMES:
            self.start(name)
            self.await_ready(name)
        self.recovered_s()

    def start_with(self, name: str, *arguments: str, **environment: str) -> None:
        """Start one with more arguments and variables."""
        plain = self._commands[name]
        variables = [f"{key}={value}" for key, value in environment.items()]
        self._commands[name] = ["env", *variables, *plain, *arguments]
        try:
            self.start(name)
        finally:
            self._commands[name] = plain

    def _ready(self, name: str) -> object:
        if name == "seat":
            return self.stream_port in {s.remote_port for s in sockets_of(self.pid(name), "tcp")}
        return super()._ready(name)

    @contextlib.contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """It does nothing meanwhile, with all its sockets open."""
        self.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(name, signal.SIGCONT)

    # --- networks ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def weather(self, link: str, faults: str) -> Iterator[None]:
        """A link is so bad meanwhile; its connections stay."""
        self._change(link, faults)
        try:
            yield
        finally:
            self._change(link, "")

    def _change(self, link: str, faults: str) -> None:
        async def change() -> None:
            self._links[link].change(faults)

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(10.0)

    @contextlib.contextmanager
    def deaf_dashboard(self) -> Iterator[None]:
        """A page that asks for everything and reads nothing."""
        url = f"ws://127.0.0.1:{self.http_port}/api/v1/live"
        with websockets.sync.client.connect(
            url, max_queue=1, ping_interval=None, close_timeout=0.1
        ) as page:
            page.send(EVERYTHING)
            yield

    # --- what the bridge says ------------------------------------------------------------------

    def until(
        self, holds: Callable[[dict[str, Any]], object], what: str
    ) -> tuple[dict[str, Any], float]:
        """Wait for something in the status; that status and the seconds."""
        newest: dict[str, Any] = {}

        def look() -> bool:
            with contextlib.suppress(OSError):
                newest.update(self.get())
            return bool(newest) and bool(holds(newest))

        seconds = wait_until(
            look, LIMIT_S, lambda: f"{what}: {trouble(newest) if newest else 'no answer'}", 0.03
        )
        return newest, seconds

    def words(self, of: Callable[[dict[str, Any]], str], text: str) -> tuple[str, float]:
        """Wait until a sentence of the status has that text; the sentence and the seconds."""
        status, seconds = self.until(lambda s: text in of(s), text)
        return of(status), seconds

    def counter(self, kind: str, part: str, name: str) -> int:
        """A counter of a source or renderer."""
        count: int = self.get()[kind][part]["report"]["counters"].get(name, 0)
        return count

    def one_more_picture(self) -> None:
        """Wait until a reader has got one more."""
        before = self.received()
        self.until(lambda s: self.received() > before, "one more picture")

    def recovered_s(self) -> float:
        """Seconds from now until everything works, both readers are there and one more picture
        has reached one.
        """
        before, begun_s = self.received(), time.monotonic()

        def whole(status: dict[str, Any]) -> bool:
            return not trouble(status) and len(status["streams"]["front"]["subscribers"]) == 2

        self.until(lambda s: whole(s) and self.received() > before, "all well again")
        return time.monotonic() - begun_s

    def await_recording(self, state: str) -> str:
        """Wait for a state of the recording; the reason that it gives."""
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.rest("GET", "api/v1/recording"))
            return bool(found["state"] == state)

        wait_until(look, LIMIT_S, lambda: found, 0.03)
        return str(found["reason"])

    # --- wall time -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def own_wall_time(self) -> Iterator[Callable[[str], None]]:
        """The bridge, started again, with a wall clock that the given function sets, such as
        ``+3600`` (seconds).
        """
        assert LIBFAKETIME is not None
        file = self.folder / "wall_time"

        def set_to(offset: str) -> None:
            file.with_suffix(".new").write_text(offset)
            file.with_suffix(".new").rename(file)

        set_to("+0")
        self.kill("daemon")
        self.start_with(
            "daemon",
            LD_PRELOAD=str(LIBFAKETIME),
            FAKETIME_TIMESTAMP_FILE=str(file),
            FAKETIME_CACHE_DURATION="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
            DONT_FAKE_MONOTONIC="1",
        )
        self.await_ready("daemon")
        try:
            yield set_to
        finally:
            self.kill("daemon")
            self.start("daemon")
            self.await_ready("daemon")
