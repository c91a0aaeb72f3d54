"""OptiTrack under the contract suite."""

from __future__ import annotations

from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> MotiveEmulator:
    config = MotiveEmulatorConfig(command_port=0, data_port=0, rate_hz=100.0, clock_drift_ppm=0.0)
    return MotiveEmulator(config, motion, epoch_ns, faults)


def _source(emulator: Emulator) -> PoseSource:
    assert isinstance(emulator, MotiveEmulator)
    return OptitrackSource(
        "optitrack", OptitrackConfig(command_port=emulator.command_port, markers="all")
    )


RIG = SourceRig(
    name="optitrack",
    emulator=_emulator,
    source=_source,
    tolerance_m=1e-6,
    tolerance_rad=1e-6,
    clock="two-way",
    markers=True,
)
