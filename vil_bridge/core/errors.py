"""The error tree.

VilBridgeError
├── ConfigError          the configuration is wrong; the message names file, line and cure
├── SourceError
│   ├── SourceUnavailable    a peer is absent or refused: the supervisor retries
│   ├── RequiredSourceLost   a source that the configuration requires stayed away: the bridge ends
│   └── ProtocolError        received bytes are malformed: counted, never fatal
├── RendererError
│   └── AssetError           a model or texture is unreadable; the message says where, and the cure
├── SinkError
├── ValueRefused         a value that was asked for is wrong, whenever it is asked for
└── RecordingError       a recording cannot be written or read; the message names place and cure

Anything else that escapes a component is a bug. It ends the process non-zero, unless the component
is accessory (an output, the recorder, the publisher): then it fails alone
(:mod:`vil_bridge.interfaces.bulkhead`).
"""

from __future__ import annotations


class VilBridgeError(Exception):
    """Base of every error that the bridge raises on purpose."""


class ConfigError(VilBridgeError):
    """A configuration problem, or several: one per line of ``problems``."""

    def __init__(self, problems: str | list[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class SourceError(VilBridgeError):
    """A source of poses or inertial data failed."""


class SourceUnavailable(SourceError):  # noqa: N818 - absence is a state rather than a fault
    """The peer is absent, refused, or the device is gone; retried by the supervisor."""


class RequiredSourceLost(SourceError):  # noqa: N818 - as above
    """A required source was silent for longer than the configuration allows."""


class ProtocolError(SourceError):
    """Received bytes contradict their protocol.

    Attributes:
        offset: byte position where reading failed, None when it concerns the whole message.
        length: size of the message in bytes.
    """

    def __init__(
        self, message: str, *, offset: int | None = None, length: int | None = None
    ) -> None:
        self.offset = offset
        self.length = length
        place = "" if offset is None else f" at byte {offset}"
        size = "" if length is None else f" of {length}"
        super().__init__(f"{message}{place}{size}")


class RendererError(VilBridgeError):
    """A renderer cannot do what was asked of it."""


class AssetError(RendererError):
    """A file of models or textures is broken, incomplete, or needs what we do not read."""


class SinkError(VilBridgeError):
    """An output cannot be opened or written."""


class ValueRefused(VilBridgeError, ValueError):  # noqa: N818 - it says what happened
    """A number or a name that was asked for is wrong.

    Any other ValueError of a change means "not now".
    """


class RecordingError(VilBridgeError):
    """A recording cannot be written or read.

    The message names the file, the place in it and the cure.
    """


class CommandFormatError(ValueError):
    """Bytes or a message that cannot be read as a command."""
