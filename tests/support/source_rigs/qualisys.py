"""QTM over TCP: float32 millimetres, one-way stamps, bodies and skeletons."""

from __future__ import annotations

import pytest

from tests.support.source_rigs import SourceRig

pytest.importorskip("qtm_rt", reason="the vendor's client is not installed (extra qualisys)")

from vil_adapters.emulation.emulator import Emulator
from vil_adapters.qualisys.config import QtmEmulatorConfig, QualisysConfig
from vil_adapters.qualisys.emulator import QtmEmulator
from vil_adapters.qualisys.source import QualisysSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion

__all__ = ["RIG"]


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> QtmEmulator:
    return QtmEmulator(QtmEmulatorConfig(port=0, discovery_port=0), motion, epoch_ns, faults)


def _source(emulator: Emulator) -> QualisysSource:
    assert isinstance(emulator, QtmEmulator)
    return QualisysSource("lab", QualisysConfig(port=emulator.port))


RIG = SourceRig("qualisys", _emulator, _source, clock="one-way")
