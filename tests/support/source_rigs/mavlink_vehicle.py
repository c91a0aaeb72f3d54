"""The MAVLink vehicle under the contract suite."""

from __future__ import annotations

from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.mavlink_vehicle.config import MavlinkVehicleConfig, VehicleEmulatorConfig
from vil_adapters.mavlink_vehicle.emulator import VehicleEmulator
from vil_adapters.mavlink_vehicle.source import MavlinkVehicleSource
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> VehicleEmulator:
    return VehicleEmulator(VehicleEmulatorConfig(port=0), motion, epoch_ns, faults)


def _source(emulator: Emulator) -> PoseSource:
    assert isinstance(emulator, VehicleEmulator)
    subject = emulator.server.motion.subjects[0]
    config = MavlinkVehicleConfig(port=0, peer_port=emulator.port, subject=subject, rate_hz=100.0)
    return MavlinkVehicleSource("mavlink-vehicle", config)


RIG = SourceRig(
    name="mavlink-vehicle",
    emulator=_emulator,
    source=_source,
    tolerance_m=1e-6,
    tolerance_rad=1e-6,
    skeletons=False,
    flags_return=False,
    clock="two-way",
)
