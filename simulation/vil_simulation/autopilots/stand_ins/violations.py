"""Error by which a stand-in ends."""

from __future__ import annotations

from vil_bridge.core.errors import VilBridgeError


class WireViolation(VilBridgeError):  # noqa: N818 - names the other side's act
    """The peer broke a rule of the wire; the message is one sentence."""


def require(holds: bool, sentence: str) -> None:
    """Raise a violation with a sentence where a rule does not hold.

    Raises:
        WireViolation: the rule does not hold.
    """
    if not holds:
        raise WireViolation(sentence)
