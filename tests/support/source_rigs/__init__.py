"""What the contract suite needs of each adapter: its emulator, its source, and how exact they are.

Every module of this folder holds one ``RIG``; ``tests/contract/test_sources.py`` runs the same
promises against all of them. The package of another project calls :func:`use` before it imports
that suite.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest

from vil_adapters.emulation.emulator import Emulator
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource

__all__ = ["SourceRig", "chosen", "use"]


@dataclass(frozen=True)
class SourceRig:
    """One adapter under test.

    Attributes:
        name: the adapter's ``type``.
        emulator: opens the emulator for a motion that began at a bridge time, on free loopback
            ports.
        source: a source configured for that running emulator.
        tolerance_m, tolerance_rad: what the wire loses (float32, millimetres, rotation vectors).
        skeletons: the wire carries humans.
        flags_loss: the wire says which body is not tracked in the very frame (else it is found out
            later).
        flags_return: it says so of a body that is tracked again, too (else a message of its own
            does, later).
        clock: ``two-way`` or ``one-way`` where the wire carries stamps, ``none`` without any.
        markers: the wire carries single markers.
    """

    name: str
    emulator: Callable[[MocapMotion, int, Faults], AbstractAsyncContextManager[Emulator]]
    source: Callable[[Emulator], PoseSource]
    tolerance_m: float = 1e-6
    tolerance_rad: float = 1e-6
    skeletons: bool = True
    flags_loss: bool = True
    flags_return: bool = True
    clock: str = "one-way"
    markers: bool = False


_CHOSEN: list[SourceRig] = []


def use(rig: SourceRig) -> None:
    """Let the contract suite, which is imported after this, run against one rig only."""
    pytest.register_assert_rewrite("tests.contract.test_sources")
    _CHOSEN[:] = [rig]


def chosen() -> SourceRig | None:
    """Return the rig of another project, None in this one."""
    return _CHOSEN[0] if _CHOSEN else None
