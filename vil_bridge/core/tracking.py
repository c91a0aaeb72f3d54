"""States and kinds of actors."""

from __future__ import annotations

from enum import StrEnum


class TrackingState(StrEnum):
    """Trust in a pose; an old pose is never shown as new.

    FROZEN: poses go on coming and repeat, though the body cannot stand so still. New states come
    last.
    """

    TRACKED = "tracked"
    COASTING = "coasting"
    STALE = "stale"
    LOST = "lost"
    FROZEN = "frozen"


class ActorKind(StrEnum):
    """Kind of an actor, which decides how it is drawn."""

    VEHICLE = "vehicle"
    HUMAN = "human"
    PROP = "prop"
