"""Learning environments: gymnasium's interface on the array tasks of
:mod:`vil_simulation.vehicles.envs`.

Importing this package registers ``vil/Hover-v0``, ``vil/ThreeRotors-v0``, ``vil/Gates-v0`` and
``vil/Race-v0``, and so does ``gymnasium.make("vil_simulation.learning:vil/Hover-v0")``. Extras:
``learn`` for the environments, ``gl`` for their pictures, ``train`` (several GB) for
:mod:`vil_simulation.learning.stable`, ``ray`` for :mod:`vil_simulation.learning.rollouts`.
"""

from __future__ import annotations

from typing import Final

from vil_bridge.core.installation import install_command

try:
    import gymnasium
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        f"learning environments need gymnasium: {install_command('learn')}"
    ) from exc

from vil_simulation.learning.environment import TaskEnv
from vil_simulation.learning.tasks import TASKS
from vil_simulation.learning.vector import TaskVectorEnv

__all__ = ["IDS", "TASKS", "TaskEnv", "TaskVectorEnv"]

IDS: Final = {
    "vil/Hover-v0": "hover",
    "vil/ThreeRotors-v0": "three_rotors",
    "vil/Gates-v0": "gates",
    "vil/Race-v0": "race",
}
"""Tasks by the names under which gymnasium makes them."""

for _id, _task in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(
            _id,
            entry_point="vil_simulation.learning.environment:TaskEnv",
            vector_entry_point="vil_simulation.learning.vector:TaskVectorEnv",
            kwargs={"task": _task},
        )
