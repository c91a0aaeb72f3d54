"""Steps of the error-state filter: compiled where the kernel is there, else their NumPy twin."""

from __future__ import annotations

from typing import Final

from vil_bridge.world.inertial import compiled_steps, error_state
from vil_bridge.world.kernel.library import KERNEL

propagated: Final = error_state.propagated if KERNEL is None else compiled_steps.propagated
corrected: Final = error_state.corrected if KERNEL is None else compiled_steps.corrected
