"""The page about a vehicle of one's own keeps its promise.

test_examples.py runs the code of all pages.
"""

from __future__ import annotations

from tests.support.examples import examples


def test_a_vehicle_takes_forty_lines() -> None:
    code = examples("docs/reference/vehicles/your_own_vehicle.md")[0].text
    assert "class Blimp(Model)" in code
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
