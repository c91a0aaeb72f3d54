"""Recording and replay over REST."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Annotated, Any, Final, Protocol, TypeVar

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from pydantic import Field, StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from vil_bridge.core.errors import RecordingError
from vil_bridge.monitoring.report.page import REPORT_POLICY
from vil_bridge.web.request_body import NOT_NOW, read_body, takes
from vil_bridge.web.schemas.body import Body
from vil_bridge.web.schemas.recordings import RecordingView, ReplayView, StoredView
from vil_bridge.web.schemas.status import ErrorOut

__all__ = ["Recordings", "recording_router"]

_T = TypeVar("_T")
_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {404: {"model": ErrorOut}}
_NAME: Final = r"^[a-zA-Z0-9._-]+$"
Name = Annotated[str, StringConstraints(pattern=_NAME, max_length=120)]
_Stored = Annotated[str, Path(examples=["flight-1.mcap"])]
_RECORD: Final = {"name": "flight-1"}
_REPLAY: Final = {"name": "flight-1.mcap", "rate": 1.0, "loop": False}
"""Examples of bodies."""


class _OpenFile(FileResponse):
    """Answer from an open file, which is closed once it was sent or the peer left."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(
            f"/proc/self/fd/{file.fileno()}",
            media_type="application/octet-stream",
            filename=name if name.endswith(".mcap") else f"{name}.mcap",
            stat_result=os.fstat(file.fileno()),
        )
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


class RecordBody(Body):
    """Name of a new recording."""

    name: Name | None = Field(default=None, description="Name of the file; none = after the time.")


class ReplayBody(Body):
    """Recording to replay, and its pace."""

    name: Name = Field(description="Name of the file, as in `recordings`.")
    rate: Annotated[float, Field(ge=0.01, le=100)] = Field(
        default=1.0, description="Recorded seconds per second."
    )
    loop: bool = Field(default=False, description="Begin again after the end.")


class Recordings(Protocol):
    """Port to the recorder and the player.

    Called in threads of the HTTP server, for up to a second.

    A refused command raises RecordingError with the reason; unknown files raise KeyError.
    """

    def recording(self) -> RecordingView:
        """Return the state of the recording."""
        ...

    def start(self, name: str | None) -> None:
        """Start a recording in the folder of recordings; None = named after the time."""
        ...

    def stop(self) -> None:
        """End the recording, if there is one."""
        ...

    def stored(self) -> list[StoredView]:
        """Return the files of the folder, the newest first."""
        ...

    def opened(self, name: str) -> IO[bytes]:
        """Open a file of the folder that is complete; links are not followed."""
        ...

    def report(self, name: str) -> bytes:
        """Return the report of a file, as a page of HTML.

        Takes minutes for a recording of hours.
        """
        ...

    def replay(self) -> ReplayView:
        """Return the state of the replay."""
        ...

    def play(self, name: str, rate: float, loop: bool) -> None:
        """Replace live sources by the recorded ones."""
        ...

    def stop_replay(self) -> None:
        """Return to the live sources."""
        ...


def recording_router(recordings: Recordings) -> APIRouter:
    """Return the routes ``/api/v1/recording``, ``/api/v1/recordings`` and ``/api/v1/replay``."""
    router = APIRouter(prefix="/api/v1", tags=["recording"])
    _add_recording(router, recordings)
    _add_stored(router, recordings)
    _add_replay(router, recordings)
    return router


def _add_recording(router: APIRouter, recordings: Recordings) -> None:
    @router.get("/recording", operation_id="get_recording")
    async def get_recording() -> RecordingView:
        """Return the state of the recording, or of the last one."""
        return recordings.recording()

    @router.put(
        "/recording",
        operation_id="start_recording",
        responses=NOT_NOW,
        openapi_extra=takes(RecordBody, _RECORD),
    )
    async def start_recording(request: Request) -> RecordingView:
        """Start a recording."""
        body = await read_body(request, RecordBody)
        await _called(lambda: recordings.start(body.name))
        return recordings.recording()

    @router.delete("/recording", operation_id="stop_recording")
    async def stop_recording() -> RecordingView:
        """End the recording and finish its file; do nothing if there is none."""
        await _called(recordings.stop)
        return recordings.recording()


def _add_stored(router: APIRouter, recordings: Recordings) -> None:
    @router.get("/recordings", operation_id="get_recordings")
    async def get_recordings() -> list[StoredView]:
        """Return the recordings of the folder, the newest first."""
        return await _called(recordings.stored)

    @router.get(
        "/recordings/{name}",
        operation_id="get_recording_file",
        response_class=FileResponse,
        responses={200: {"content": {"application/octet-stream": {}}}, **_UNKNOWN, **NOT_NOW},
    )
    async def get_recording_file(name: _Stored) -> FileResponse:
        """Return one recording as a file."""
        return _OpenFile(await _called(lambda: recordings.opened(name)), name)

    @router.get(
        "/recordings/{name}/report",
        operation_id="get_recording_report",
        # The page's own type would become that of refusals in the description.
        response_class=Response,
        responses={
            200: {"content": {"text/html": {"schema": {"type": "string"}}}},
            **_UNKNOWN,
            **NOT_NOW,
        },
    )
    async def get_recording_report(name: _Stored) -> HTMLResponse:
        """Return the report of a recording: latency, gaps, drops, warp and prediction errors."""
        page = await _called(lambda: recordings.report(name))
        return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


def _add_replay(router: APIRouter, recordings: Recordings) -> None:
    @router.get("/replay", operation_id="get_replay")
    async def get_replay() -> ReplayView:
        """Return the state of the replay, or of the last one."""
        return recordings.replay()

    @router.put(
        "/replay",
        operation_id="start_replay",
        responses={**_UNKNOWN, **NOT_NOW},
        openapi_extra=takes(ReplayBody, _REPLAY),
    )
    async def start_replay(request: Request) -> ReplayView:
        """Replace live sources by the recorded ones."""
        body = await read_body(request, ReplayBody)
        await _called(lambda: recordings.play(body.name, body.rate, body.loop))
        return recordings.replay()

    @router.delete("/replay", operation_id="stop_replay")
    async def stop_replay() -> ReplayView:
        """Return to the live sources."""
        await _called(recordings.stop_replay)
        return recordings.replay()


async def _called(call: Callable[[], _T]) -> _T:
    """Call in a thread, since disks are slow."""
    try:
        return await run_in_threadpool(call)
    except KeyError as exc:
        raise HTTPException(
            404, f"no recording is named {exc.args[0]!r}: GET api/v1/recordings lists them"
        ) from None
    except RecordingError as exc:
        raise HTTPException(409, str(exc)) from None
