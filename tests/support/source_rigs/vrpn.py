"""VRPN under the contract suite."""

from __future__ import annotations

from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.vrpn.config import VrpnConfig, VrpnEmulatorConfig
from vil_adapters.vrpn.emulator import VrpnEmulator
from vil_adapters.vrpn.source import VrpnSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> VrpnEmulator:
    return VrpnEmulator(VrpnEmulatorConfig(port=0, latency_ms=0.0), motion, epoch_ns, faults)


def _source(emulator: Emulator) -> PoseSource:
    assert isinstance(emulator, VrpnEmulator)
    return VrpnSource("vrpn", VrpnConfig(port=emulator.port))


RIG = SourceRig(
    name="vrpn",
    emulator=_emulator,
    source=_source,
    tolerance_m=1e-8,
    tolerance_rad=1e-8,
    skeletons=False,
    flags_loss=False,
    flags_return=False,
    clock="one-way",
)
