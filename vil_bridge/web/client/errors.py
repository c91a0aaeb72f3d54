"""Errors of the REST client."""

from __future__ import annotations

from vil_bridge.core.errors import VilBridgeError

_NOT_ALLOWED = (401, 403)
_NO_SUCH_THING = 404


class RestError(VilBridgeError):
    """The bridge answered with an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class BridgeUnreachable(RestError):  # noqa: N818 - absence is a state rather than a fault
    """No answer, or not in time, or not by HTTP; status 0."""


class NotAllowed(RestError):  # noqa: N818 - as above
    """A token is needed, or its role does not suffice (401, 403)."""


class NoSuchThing(RestError):  # noqa: N818 - as above
    """Nothing of that name; the text names some that exist (404)."""


class RequestRejected(RestError):  # noqa: N818 - as above
    """Not now, too often, too much or wrong; the text says why (any other 4xx)."""


def refusal(status: int, text: str) -> RestError:
    """Return the error for a status of failure."""
    if status in _NOT_ALLOWED:
        return NotAllowed(status, text)
    if status == _NO_SUCH_THING:
        return NoSuchThing(status, text)
    return RequestRejected(status, text) if status < 500 else RestError(status, text)
