"""A process that is prepared for virtual worlds.

Its machine is simulated, and all modules are imported.

:func:`repeatable` comes first. It executes the program again with the settings on which the order
of sets depends. The import of this module then installs the machine before the product is imported.
Nothing of a seed is in force until :func:`run_seed`, so that a process which has imported all that
can be forked for each seed.
"""

# ruff: noqa: E402 - the machine comes before all other modules, which take clocks, locks and polls

from __future__ import annotations

import os

from tests.virtual import machine as virtual_machine

MACHINE = virtual_machine.install()

from tests.virtual import zeromq
from vil_bridge.core import clock
from vil_bridge.kernel.library import KERNEL
from vil_simulation.source.network_namespace import enter_own_network

virtual_machine.replace(
    clock,
    open_timerfd=lambda: os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
    arm_timerfd=MACHINE.arm,
)
if KERNEL is not None:
    virtual_machine.set_clock_of(KERNEL, MACHINE.now_ns)

import asyncio
import gc
import hashlib
import importlib
import resource
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.virtual.planted import PLANTED
from tests.virtual.world import World

__all__ = ["run_seed"]

_IMPORTED_LATE: Final = (
    "vil_bridge.daemon.http_app",
    "vil_bridge.web.uvicorn_internals",
    "uvicorn.loops.auto",
)
"""Modules that a bridge imports once it runs."""

for _name in _IMPORTED_LATE:
    importlib.import_module(_name)
gc.collect()
gc.freeze()


def run_seed(
    seed: int, seconds: float, planted: str = "", trace_file: Path | None = None
) -> dict[str, Any]:
    """Run the world of a seed in this process, which has done nothing else, and return its results.

    Args:
        seconds: of simulated time. planted: fault of :mod:`tests.virtual.planted`. trace_file: gets
            events and headers.
    """
    enter_own_network()
    zeromq.install(MACHINE)
    MACHINE.begin(seed)
    if planted:
        PLANTED[planted]()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        world = World(seed, Path())
        asyncio.run(world.run(seconds))
    used = resource.getrusage(resource.RUSAGE_SELF)
    trace = "\n".join(world.trace)
    if trace_file is not None:
        trace_file.parent.mkdir(parents=True, exist_ok=True)
        trace_file.write_text(trace, encoding="utf-8")
    return {
        "seed": seed,
        "simulated_s": seconds,
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "pictures": dict(sorted(world.pictures.items())),
        "recorded_bytes": len(world.recording),
        "digest": hashlib.sha256(trace.encode() + world.recording).hexdigest(),
        "failures": world.failures[:20],
    }
