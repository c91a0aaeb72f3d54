"""The moves that the user is asked to make, in order."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["STEPS", "Step"]


class Step(NamedTuple):
    """One move between two rests."""

    name: str
    prompt: str


STEPS: Final = (
    Step("forward", "move it forward, the way its nose points, by half a metre or more, without turning it"),
    Step("left", "move it to its left by half a metre or more, without turning it"),
    Step("up", "move it straight up by half a metre"),
    Step("turn", "turn it to the left by a quarter turn, where it is"),
    Step("tilt", "tilt it forward, back and to both sides by 45 degrees, its centre in one place"),
)
