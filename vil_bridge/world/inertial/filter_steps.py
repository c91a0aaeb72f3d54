"""Steps of the error-state filter: compiled where the kernel is there, else their NumPy twin."""

from __future__ import annotations

from typing import Final

from vil_bridge.kernel.library import KERNEL
from vil_bridge.world.inertial import compiled_steps, error_state

propagated: Final = error_state.propagated if KERNEL is None else compiled_steps.propagated
corrected: Final = error_state.corrected if KERNEL is None else compiled_steps.corrected
