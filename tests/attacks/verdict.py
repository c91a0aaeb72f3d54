"""The judgement of an attack: pure functions of what the harness measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Round", "Verdict", "judge_rate", "share"]

LEAST_PICTURES: Final = 20
"""Fewer in all reference phases together say nothing about a rate."""


@dataclass(frozen=True, slots=True)
class Round:
    """One attack phase and the reference phase after it.

    Attributes:
        attack_s, reference_s: their lengths.
        attack_pictures, reference_pictures: that the onboard client received in them.
        attacker_cpu_s, burner_cpu_s: processor time that attackers used, and the harmless processes
            in their place.
    """

    attack_s: float
    reference_s: float
    attack_pictures: int
    reference_pictures: int
    attacker_cpu_s: float
    burner_cpu_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one attack: ``problems`` empty = the bridge held."""

    name: str
    summary: str
    rounds: Sequence[Round]
    counted: str
    problems: Sequence[str]

    @property
    def words(self) -> str:
        """One line for people."""
        result = "FAILED" if self.problems else "held"
        rate = (
            f"{share(self.rounds):.0%} of the reference picture rate" if self.rounds else "no round"
        )
        return (
            f"{self.name}: {result}, {len(self.rounds)} rounds, {rate}; status: "
            f"{self.counted or 'nothing'}"
        )


def share(rounds: Sequence[Round]) -> float:
    """Return the picture rate during the attack relative to the reference's, over all rounds.

    0 without reference.
    """
    attack_hz = _rate(sum(r.attack_pictures for r in rounds), sum(r.attack_s for r in rounds))
    reference_hz = _rate(
        sum(r.reference_pictures for r in rounds), sum(r.reference_s for r in rounds)
    )
    return attack_hz / reference_hz if reference_hz else 0.0


def judge_rate(rounds: Sequence[Round], least_share: float) -> list[str]:
    """Return the reasons why the pictures did not flow as they should; empty = they did.

    Few pictures in the reference alone are other work's doing: the attack had more at that time.
    """
    attacked = sum(r.attack_pictures for r in rounds)
    reference = sum(r.reference_pictures for r in rounds)
    if max(attacked, reference) < LEAST_PICTURES:
        return [
            f"{attacked} pictures during the attack and {reference} next to the harmless process "
            "are too few to judge. Run more rounds."
        ]
    found = share(rounds)
    if found >= least_share or not reference:
        return []
    return [f"{found:.0%} of the reference picture rate, less than {least_share:.0%}"]


def _rate(pictures: int, seconds: float) -> float:
    return pictures / seconds if seconds else 0.0
