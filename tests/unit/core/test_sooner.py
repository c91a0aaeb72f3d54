"""The earlier of two instants."""

from __future__ import annotations

import pytest

from vil_bridge.core.clock import sooner


@pytest.mark.parametrize(
    ("a_ns", "b_ns", "expected"),
    [(None, None, None), (3, None, 3), (None, 4, 4), (3, 4, 3), (4, 3, 3), (0, None, 0)],
)
def test_an_absent_instant_is_never_the_sooner(
    a_ns: int | None, b_ns: int | None, expected: int | None
) -> None:
    assert sooner(a_ns, b_ns) == expected
