"""Source over a vendor's library, for servers that our own client does not get along with.

Never run here.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from importlib.util import find_spec
from typing import Final

from vil_adapters.vicon.codec import Deframer, split_packet
from vil_adapters.vicon.config import ViconNativeConfig
from vil_adapters.vicon.convert import ViconConverter
from vil_adapters.vicon.receiver import ViconReceiver
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError, ProtocolError, SourceUnavailable
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status

_LIBRARIES: Final = ("vicon_dssdk", "pyvicon_datastream")
_WORKER: Final = "vil_adapters.vicon.native_worker"
_READ_BYTES: Final = 1 << 18
_SILENCE_S: Final = 1.0
_MAX_SENTENCE_BYTES: Final = 1000


class ViconNativeSource:
    """Objects and persons through vicon_dssdk or pyvicon-datastream (implements ``PoseSource``).

    Raises:
        ConfigError: the library is not installed.
    """

    def __init__(self, name: str, config: ViconNativeConfig) -> None:
        self.name = name
        self._config = config
        asked = _LIBRARIES if config.library == "auto" else (config.library,)
        installed = [module for module in asked if find_spec(module) is not None]
        if not installed:
            raise ConfigError(
                f"source {name!r}: {' and '.join(asked)} not installed. Use type vicon, "
                "which needs neither; "
                "or install vicon_dssdk from Vicon's DataStream SDK; or pip install "
                "pyvicon-datastream, which needs "
                "a C++ compiler"
            )
        self._library = installed[0]

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the library gave up; the reason is its own, in words.
        """
        config = self._config
        receiver = ViconReceiver(
            self.name,
            ViconConverter(self.name, segments=config.segments),
            config.subjects,
            emit,
            status,
        )
        address = f"{config.server}:{config.port}"
        status.facts.update(address=address, library=self._library)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", _WORKER, self._library, address, stdout=PIPE, stderr=PIPE
        )
        try:
            await self._follow(child, receiver, status)
            raise SourceUnavailable(f"{self._library} with {address}: {await _last_words(child)}")
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()

    async def _follow(self, child: Process, receiver: ViconReceiver, status: Status) -> None:
        """Take packets until the child ends."""
        assert child.stdout is not None
        deframer = Deframer()
        while True:
            try:
                async with asyncio.timeout(_SILENCE_S):
                    chunk = await child.stdout.read(_READ_BYTES)
            except TimeoutError:
                status.waiting(
                    f"{self._library} gets no frames from {self._config.server}: is the "
                    "system live?"
                )
                continue
            if not chunk:
                return
            t_arrival_ns = now_ns()
            deframer.feed(chunk)
            try:
                for content in deframer.packets():
                    receiver.handle(split_packet(content), t_arrival_ns)
                receiver.deliver()
            except ProtocolError as exc:
                receiver.malformed("what the library's process sent", exc)
                return


async def _last_words(child: Process) -> str:
    assert child.stderr is not None
    words = (await child.stderr.read(_MAX_SENTENCE_BYTES)).decode(errors="replace").strip()
    return words.splitlines()[-1] if words else "its process ended without a word"
