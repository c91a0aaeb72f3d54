"""The first step of a fresh process.

Nothing is imported that no kernel needs, and numba stays whole for others.
"""

from __future__ import annotations

import sys

import pytest

from tests.support.programs import output

pytestmark = pytest.mark.process


STEP = """
import sys
import numpy as np
from vil_simulation.vehicles.envs.hover import HoverTask
task = HoverTask(1, engine="native")
task.reset()
task.step(np.zeros((1, 4)))
print(sorted(name for name in sys.modules if name in ("scipy.linalg", "scipy.linalg.cython_blas",
    "asyncio")))
"""

PRODUCT = """
import numba
product = numba.njit(lambda a, b: a @ b)
a = np.arange(9.0).reshape(3, 3)
assert (product(a, a) == a @ a).all()
assert hasattr(sys.modules["scipy.linalg.cython_blas"], "__pyx_capi__")
"""


def test_the_first_step_imports_no_linear_algebra_and_leaves_it_to_others() -> None:
    assert output(sys.executable, "-c", STEP + PRODUCT, limit_s=120).strip() == "[]"
