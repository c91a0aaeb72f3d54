"""Contract suite of VIL Bridge on this adapter: run ``pytest`` in this folder."""

from __future__ import annotations

from vil_example.config import ExampleConfig, ExampleEmulatorConfig
from vil_example.emulator import ExampleEmulator
from vil_example.source import ExampleSource

from tests.support import source_rigs
from vil_adapters.emulation.emulator import Emulator
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion


def _emulator(motion: MocapMotion, epoch_ns: int, faults: Faults) -> ExampleEmulator:
    return ExampleEmulator(ExampleEmulatorConfig(port=0), motion, epoch_ns, faults)


def _source(emulator: Emulator) -> ExampleSource:
    assert isinstance(emulator, ExampleEmulator)
    return ExampleSource("lab", ExampleConfig(port=emulator.port))


# TODO: what the stream loses and contains; tests/support/source_rigs/__init__.py of the bridge
# explains each field.
source_rigs.use(
    source_rigs.SourceRig("example", _emulator, _source, skeletons=False, clock="one-way")
)

# The suite reads the rig when it is imported.
from tests.contract.test_sources import *  # noqa: E402, F403
