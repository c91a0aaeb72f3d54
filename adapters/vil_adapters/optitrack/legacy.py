"""Old unicast NatNet through PyPI ``natnetclient`` (extra ``optitrack-legacy``): rigid bodies only.

Its limits are listed in docs/guides/mocap/optitrack.md. The client in ``source.py`` reads the same
servers without them; this one is for comparisons.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from typing import Any, Final

import numpy as np

from vil_adapters.optitrack.config import LegacyOptitrackConfig
from vil_adapters.optitrack.convert import stamp_ns
from vil_adapters.optitrack.sockets import NatNetSockets
from vil_adapters.sessions.frame_order import FrameFilter
from vil_adapters.sessions.plausible_range import within_reach
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.geometry import q_normalize, yup_to_zup
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_SILENCE_S: Final = 3.0
_LINE_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 1 << 16
_CHILD: Final = "vil_adapters.optitrack.legacy_child"


class LegacyOptitrackSource:
    """Rigid bodies of a server of NatNet 2.6 to 2.10 in unicast (implements ``PoseSource``)."""

    def __init__(self, name: str, config: LegacyOptitrackConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the package is not installed, or gave up (it does so at anything
                unexpected).
        """
        config = self._config
        link = await NatNetSockets.open(config.server, config.command_port, config.interface)
        link.close()
        self._order = FrameFilter(self.name, emit, status)
        keys = {
            "server_ip": link.server_ip,
            "local_ip": link.local_ip,
            "command_port": config.command_port,
            "data_port": config.data_port,
        }
        status.facts.update(address=f"{link.server_ip}:{link.server_port}", interface=link.local_ip)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _CHILD, json.dumps(keys)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        try:
            await self._follow(child, emit, status)
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.communicate()

    async def _follow(self, child: asyncio.subprocess.Process, emit: Emit, status: Status) -> None:
        assert child.stdout is not None
        assert child.stderr is not None
        reading = asyncio.create_task(child.stdout.readline())
        try:
            while True:
                await asyncio.wait((reading,), timeout=_SILENCE_S)
                if not reading.done():
                    status.waiting(self._silence(status))
                    continue
                line = reading.result()
                t_arrival_ns = now_ns()
                if not line:
                    raise SourceUnavailable(
                        f"natnetclient gave up: {_last_line(await child.stderr.read(_TAIL_BYTES))}"
                    )
                self._handle(json.loads(line), t_arrival_ns, emit, status)
                reading = asyncio.create_task(child.stdout.readline())
        finally:
            reading.cancel()

    def _silence(self, status: Status) -> str:
        config = self._config
        if "version" not in status.facts:
            return f"natnetclient asks {config.server}:{config.command_port} for its version"
        return (
            f"no frames at {status.facts['interface']}:{config.data_port}, the only "
            "address that natnetclient reads: "
            "does the server send unicast there?"
        )

    def _handle(self, frame: dict[str, Any], t_arrival_ns: int, emit: Emit, status: Status) -> None:
        if "version" in frame:
            status.facts["version"] = frame["version"]
            return
        if self._order.judge(frame["number"], t_arrival_ns, stamp_ns(frame["timestamp_s"])) is None:
            return
        emit(self._frame(frame, t_arrival_ns))
        status.facts["subjects"] = [name for name, *_ in frame["bodies"]]
        status.running()

    def _frame(self, frame: dict[str, Any], t_arrival_ns: int) -> SourceFrame:
        bodies = frame["bodies"]
        p = np.array([body[1] for body in bodies], dtype=np.float64).reshape(-1, 3)
        q = np.array([body[2] for body in bodies], dtype=np.float64).reshape(-1, 4)
        scale_m = self._config.units_to_millimeters * 1e-3
        tracked = (
            np.array([body[3] for body in bodies], dtype=np.bool_)
            & np.isfinite(q).all(axis=1)
            & q.any(axis=1)
        )
        tracked &= within_reach(p * scale_m)
        p = np.where(tracked[:, None], p, 0.0)
        q = np.where(tracked[:, None], q, (0.0, 0.0, 0.0, 1.0))
        p_m = p * scale_m
        q_xyzw = q_normalize(q)
        if self._config.up_axis == "y":
            p_m, q_xyzw = yup_to_zup(p_m, q_xyzw)
        return SourceFrame(
            source=self.name,
            frame_number=frame["number"],
            t_foreign_ns=stamp_ns(frame["timestamp_s"]),
            t_arrival_ns=t_arrival_ns,
            subjects=tuple(body[0] for body in bodies),
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
        )


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "without a word"
