"""Tracker's UDP object stream under the contract suite."""

from __future__ import annotations

from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.vicon.config import TrackerUdpConfig, TrackerUdpEmulatorConfig
from vil_adapters.vicon.udp_emulator import TrackerUdpEmulator
from vil_adapters.vicon.udp_source import TrackerUdpSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion

__all__ = ["RIG"]

_RATE_HZ = 100.0


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> TrackerUdpEmulator:
    return TrackerUdpEmulator(
        TrackerUdpEmulatorConfig(port=0, rate_hz=_RATE_HZ), motion, epoch_ns, faults
    )


def _source(emulator: Emulator) -> TrackerUdpSource:
    assert isinstance(emulator, TrackerUdpEmulator)
    return TrackerUdpSource("lab", TrackerUdpConfig(port=emulator.port, rate_hz=_RATE_HZ))


RIG = SourceRig(
    name="tracker-udp",
    emulator=_emulator,
    source=_source,
    tolerance_m=1e-9,
    tolerance_rad=1e-7,
    skeletons=False,
    flags_loss=False,
    flags_return=False,
)
