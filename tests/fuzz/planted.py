"""Defects planted on purpose, so that a test can show that the fuzzer finds their like."""

from __future__ import annotations

import inspect
import sys
import time
import types
from typing import Any, Final

from tests.fuzz.target import Target, load
from vil_bridge.core.errors import ProtocolError
from vil_bridge.outputs.rtp import reports

__all__ = ["GREEDY", "SHORT", "SLOW"]

_CHECK: Final = "if blocks.stop > end:"
_SEEDS: Final = load("rtcp").seeds


def _without_check() -> Any:
    """A copy of the RTCP reader that believes the number of blocks which a packet tells."""
    source = inspect.getsource(reports)
    assert source.count(_CHECK) == 1
    module = types.ModuleType("planted_reports")
    exec(source.replace(_CHECK, "if False:"), vars(module))
    atheris: Any = sys.modules.get("atheris")
    # Which sees what is imported only: without branches it has nothing to steer by.
    if atheris is not None:
        for name, value in [*vars(module).items()]:
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                setattr(module, name, atheris.instrument_func(value))
    return module.receiver_reports


_read: Final = _without_check()


def _slow(data: bytes) -> None:
    """Takes long for one value of one byte."""
    end_s = time.thread_time() + 0.08
    while data[:1] == b"s" and time.thread_time() < end_s:
        pass


def _greedy(data: bytes) -> None:
    """Believes a size before anything else is looked at."""
    bytearray(int.from_bytes(data[:4], "little"))


SHORT: Final = Target("short", lambda data: _read(data, 1, 10**18), (ProtocolError,), _SEEDS, 512)
SLOW: Final = Target("slow", _slow, (), lambda: [b"a"], 16)
GREEDY: Final = Target("greedy", _greedy, (), lambda: [b"\1\0\0\0"], 16)
