"""Vicon's DataStream under the contract suite."""

from __future__ import annotations

from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.vicon.config import TrackerEmulatorConfig, ViconConfig
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_adapters.vicon.source import ViconSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion

__all__ = ["RIG"]


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> TrackerEmulator:
    return TrackerEmulator(TrackerEmulatorConfig(port=0), motion, epoch_ns, faults)


def _source(emulator: Emulator) -> ViconSource:
    assert isinstance(emulator, TrackerEmulator)
    return ViconSource("lab", ViconConfig(port=emulator.port, markers="all"))


RIG = SourceRig(
    name="vicon",
    emulator=_emulator,
    source=_source,
    tolerance_m=1e-9,
    tolerance_rad=1e-7,
    markers=True,
)
