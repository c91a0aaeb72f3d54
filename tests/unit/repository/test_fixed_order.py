"""Rooms whose results a seed promises do without BLAS and LAPACK.

Their last digits hang on the processor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.common import ROOT

ROOMS = (
    "simulation/vil_simulation/source/*.py",
    "simulation/vil_simulation/vehicles/**/*.py",
    "vil_bridge/courses/course.py",
    "vil_bridge/core/elementary.py",
    "vil_bridge/core/geometry.py",
    "vil_bridge/core/matrices.py",
    "vil_bridge/core/random/*.py",
    "vil_bridge/interfaces/trajectory.py",
    "vil_bridge/core/vector_kernel.py",
    "vil_bridge/world/race/*.py",
    "simulation/vil_simulation/planning/path_search.py",
    "simulation/vil_simulation/planning/free_space.py",
    "simulation/vil_simulation/planning/reference_rows.py",
    "simulation/vil_simulation/planning/smoothing.py",
    "simulation/vil_simulation/planning/visibility.py",
    "simulation/vil_simulation/race/pilots.py",
    "simulation/vil_simulation/race/policies.py",
    "simulation/vil_simulation/race/routes.py",
    "simulation/vil_simulation/race/simulated_race.py",
)
PRODUCTS = {
    "dot",
    "matmul",
    "inner",
    "vdot",
    "einsum",
    "tensordot",
    "vecdot",
    "matvec",
    "vecmat",
    "roots",
    "polyfit",
}

PERMITTED = {
    (
        "vil_bridge/core/geometry.py",
        "@",
    ): "sums of two exact terms, which have one result in every order",
    ("simulation/vil_simulation/vehicles/multicopter.py", "linalg.eigvalsh"): "a check",
    ("simulation/vil_simulation/vehicles/multicopter.py", "linalg.matrix_rank"): "a check",
    ("simulation/vil_simulation/vehicles/control/airframe.py", "linalg.matrix_rank"): "a check",
    ("simulation/vil_simulation/vehicles/flightmare/parameters.py", "linalg.det"): "a check",
    ("simulation/vil_simulation/vehicles/sensors/mocap.py", "linalg.matrix_rank"): "a check",
    (
        "vil_bridge/interfaces/trajectory.py",
        "linalg.inv",
    ): "rounded to the exact fractions",
    (
        "vil_bridge/world/race/curve.py",
        "linalg.lstsq",
    ): "poses without velocities, which no simulation has",
}
"""Places and what stands there, with the reason."""


ELEMENTARY = {
    *(
        "sin",
        "cos",
        "tan",
        "sinc",
        "asin",
        "acos",
        "atan",
        "atan2",
        "arcsin",
        "arccos",
        "arctan",
        "arctan2",
    ),
    *(
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "pow",
        "power",
        "cbrt",
    ),
}
"""Functions of the C library or of NumPy whose last digits hang on the processor."""

_REFERENCE = "reference of NumPy for compiled code"
_EARTH = "the Earth's shape, air and magnetic field: barometers, receivers, magnetometers"

PERMITTED_ELEMENTARY = {
    "simulation/vil_simulation/source/airsim_state.py": "AirSim's moves",
    "simulation/vil_simulation/source/autopilot_parts.py": "motors of vehicles that autopilots' "
    "programs fly",
    "simulation/vil_simulation/source/program_pilot.py": "motors of vehicles that autopilots' "
    "programs fly",
    "simulation/vil_simulation/source/program_power.py": "batteries of vehicles that autopilots' "
    "programs fly",
    "vil_bridge/core/geometry.py": "rotation vectors",
    "simulation/vil_simulation/vehicles/airsim/model.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/airsim/moves.py": "AirSim's moves",
    "simulation/vil_simulation/vehicles/airsim/rotors.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/airsim/simple_flight.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/car.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/contact.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/flightgoggles/control.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/flightmare/model.py": _REFERENCE,
    "simulation/vil_simulation/vehicles/environment/airsim_atmosphere.py": _EARTH,
    "simulation/vil_simulation/vehicles/environment/formulas.py": _EARTH,
    "simulation/vil_simulation/vehicles/environment/geodesy.py": _EARTH,
    "simulation/vil_simulation/vehicles/environment/geomagnetism.py": _EARTH,
    "simulation/vil_simulation/vehicles/sensors/allan.py": "analysis",
    "simulation/vil_simulation/vehicles/sensors/beams.py": "directions of laser beams",
    "simulation/vil_simulation/vehicles/sensors/imu.py": "of constants",
    "simulation/vil_simulation/vehicles/sensors/kernel.py": _EARTH,
}
"""Files with such functions, with what they are for.

ADR 0017 names these under what it does not cover.
"""


def found(tree: ast.AST) -> Iterator[str]:
    """Yield what leaves the order of sums to BLAS or LAPACK; norms along an axis do not."""
    along_axes = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(keyword.arg == "axis" for keyword in node.keywords)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield "@"
        if not isinstance(node, ast.Attribute):
            continue
        of_linalg = isinstance(node.value, ast.Attribute) and node.value.attr == "linalg"
        if of_linalg and not (node.attr == "norm" and id(node) in along_axes):
            yield f"linalg.{node.attr}"
        elif node.attr in PRODUCTS:
            yield node.attr


def places() -> set[tuple[str, str]]:
    files = sorted(path for room in ROOMS for path in ROOT.glob(room))
    return {(str(path.relative_to(ROOT)), name) for path in files for name in found(_parsed(path))}


def elementary(tree: ast.AST) -> Iterator[str]:
    """Yield calls of elementary functions of NumPy and of the C library, and powers that are no
    squares.
    """
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow)
            and not _is_square_or_constant(node)
        ):
            yield "**"
        if isinstance(node, ast.ImportFrom) and node.module == "math":
            yield from (alias.name for alias in node.names if alias.name in ELEMENTARY)
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        numpys = ELEMENTARY | {"hypot"}  # that of math is made of basic operations
        if node.attr in {"np": numpys, "math": ELEMENTARY}.get(node.value.id, ()):
            yield node.attr


def _is_square_or_constant(node: ast.BinOp) -> bool:
    """Return True for a square, which is a product, and for a power of a literal."""
    square = isinstance(node.right, ast.Constant) and node.right.value == 2
    literals = isinstance(node.left, ast.Constant) and isinstance(
        node.right, ast.Constant | ast.UnaryOp
    )
    return square or literals


def _parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_seeded_computations_have_one_order_of_sums() -> None:
    """Use the functions of vil_bridge/core/matrices.py, or add the place here with its reason."""
    assert places() == set(PERMITTED)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("a @ b", "@"),
        ("a @= b", "@"),
        ("a.dot(b)", "dot"),
        ("np.einsum('ij,j', a, b)", "einsum"),
        ("np.linalg.norm(v)", "linalg.norm"),
        ("np.linalg.solve(a, b)", "linalg.solve"),
    ],
)
def test_products_are_found(code: str, name: str) -> None:
    assert list(found(ast.parse(code))) == [name]


def test_norms_along_an_axis_are_sums_of_numpy() -> None:
    assert list(found(ast.parse("np.linalg.norm(v, axis=1)"))) == []


def test_seeded_computations_have_elementary_functions_of_their_own() -> None:
    """Use the functions of vil_bridge/core/elementary.py, or add the file here and in ADR 0017
    with its reason.
    """
    files = sorted({path for room in ROOMS for path in ROOT.glob(room)})
    assert {str(path.relative_to(ROOT)) for path in files if any(elementary(_parsed(path)))} == set(
        PERMITTED_ELEMENTARY
    )


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("np.sin(a)", ["sin"]),
        ("math.atan2(a, b)", ["atan2"]),
        ("from math import exp", ["exp"]),
        ("sin_cos(a)", []),
        ("np.hypot(a, b)", ["hypot"]),
        ("a**3 + a**2 + 2.0**20", ["**"]),
        ("a**n", ["**"]),
        ("math.hypot(a, b) + np.sqrt(c)", []),
    ],
)
def test_elementary_functions_are_found(code: str, names: list[str]) -> None:
    assert list(elementary(ast.parse(code))) == names
