"""The rig of ``remote``: another bridge."""

from __future__ import annotations

from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.remote.config import RemoteConfig, RemoteEmulatorConfig
from vil_adapters.remote.emulator import RemoteEmulator
from vil_adapters.remote.source import RemoteSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> RemoteEmulator:
    return RemoteEmulator(RemoteEmulatorConfig(), motion, epoch_ns, faults)


def _source(emulator: Emulator) -> PoseSource:
    assert isinstance(emulator, RemoteEmulator)
    return RemoteSource("lab", RemoteConfig(site="far", address=emulator.endpoint))


RIG = SourceRig(
    "remote", _emulator, _source, tolerance_m=1e-12, tolerance_rad=1e-12, clock="two-way"
)
