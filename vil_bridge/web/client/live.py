"""Readers of the live feeds: poses, previews and changes of maps as they arrive."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from vil_bridge.interfaces.voxels import MapSnapshot, VoxelChanges
from vil_bridge.web.client.connection import reason_of
from vil_bridge.web.client.errors import BridgeUnreachable, RequestRejected, RestError, refusal
from vil_bridge.web.live.codec import LivePoses, LivePreview, decode_live
from vil_bridge.web.live.map_codec import decode_map
from vil_bridge.web.schemas.body import problems_of
from vil_bridge.web.schemas.live import PreviewRequest, Subscription

_LONGEST_MESSAGE: Final = 16 << 20
_WRONG: Final = 1008
_UNPROCESSABLE: Final = 422


class FeedReader:
    """Connection to a feed of the bridge, as a context manager.

    Raises:
        RestError: the bridge does not answer, or refuses.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None,
        timeout_s: float,
    ) -> None:
        self._open = ExitStack()
        try:
            self._socket = self._open.enter_context(
                connect(
                    url,
                    additional_headers=headers,
                    ssl=tls,
                    open_timeout=timeout_s,
                    max_size=_LONGEST_MESSAGE,
                    compression=None,
                    proxy=None,
                )
            )
        except InvalidStatus as exc:
            raise refusal(
                exc.response.status_code, reason_of(bytes(exc.response.body or b""))
            ) from None
        except (OSError, WebSocketException) as exc:
            raise BridgeUnreachable(0, f"no live feed: {exc} ({url})") from exc

    def close(self) -> None:
        """Close the connection."""
        self._open.close()

    def _receive(self, timeout_s: float | None) -> bytes:
        """Return the next message.

        Raises:
            TimeoutError: none came in time.
            RequestRejected: the bridge does not accept what was asked for.
            BridgeUnreachable: the bridge has gone.
        """
        try:
            message = self._socket.recv(timeout_s)
        except ConnectionClosed as exc:
            raise _ended(exc) from None
        return message if isinstance(message, bytes) else message.encode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _exc: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
        self.close()


class LiveReader(FeedReader):
    """One subscription; made by :meth:`~vil_bridge.web.client.BridgeApi.live`.

    Iterates over what comes until closed.

    Raises:
        RestError: the bridge does not answer, or refuses.
    """

    def subscribe(self, poses_hz: float = 0.0, previews: Sequence[PreviewRequest] = ()) -> None:
        """Replace what is sent: poses at most 30, previews at most 15 a second.

        Raises:
            RequestRejected: it is more.
            BridgeUnreachable: the bridge has gone.
        """
        try:
            wanted = Subscription(poses_hz=poses_hz, previews=list(previews))
            self._socket.send(json.dumps(wanted.model_dump(mode="json")))
        except ValidationError as exc:
            raise RequestRejected(_UNPROCESSABLE, problems_of(exc, "the subscription")) from None
        except ConnectionClosed as exc:
            raise _ended(exc) from None

    def next(self, timeout_s: float | None = None) -> LivePoses | LivePreview:
        """Return the next message.

        Raises:
            TimeoutError: none came in time.
            RequestRejected: the bridge does not accept the subscription.
            BridgeUnreachable: the bridge has gone.
            ProtocolError: the message is malformed.
        """
        return decode_live(self._receive(timeout_s))

    def __iter__(self) -> Iterator[LivePoses | LivePreview]:
        while True:
            yield self.next()


class MapReader(FeedReader):
    """Feed of an occupancy map; made by :meth:`~vil_bridge.web.client.BridgeApi.map_changes`.

    The first message is the whole map. Each later one holds what changed since the one before, or
    the whole map again.

    Raises:
        RestError: the bridge does not answer, or refuses.
    """

    def next(self, timeout_s: float | None = None) -> MapSnapshot | VoxelChanges:
        """Return the next message.

        Raises:
            TimeoutError: none came in time.
            RequestRejected: the bridge has no such map.
            BridgeUnreachable: the bridge has gone.
            ProtocolError: the message is malformed.
        """
        return decode_map(self._receive(timeout_s))

    def __iter__(self) -> Iterator[MapSnapshot | VoxelChanges]:
        while True:
            yield self.next()


def _ended(exc: ConnectionClosed) -> RestError:
    closed = exc.rcvd
    if closed is not None and closed.code == _WRONG:
        return RequestRejected(closed.code, closed.reason)
    return BridgeUnreachable(0, f"the live feed ended: {exc}")
