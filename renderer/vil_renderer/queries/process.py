"""A scene's process as its owner sees it: questions in order, answers, restarts. Loop thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import numpy as np

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_renderer.queries.block import Array, SharedBlock
from vil_renderer.queries.messages import QueryMessage, Question, encode

logger = logging.getLogger(__name__)

PACKET: Final = struct.Struct("<QQQ")
"""Offset and length of a message in the shared memory, and the memory's size."""
MOST_WAITING: Final = 1024
ANSWER_S: Final = 120.0
"""A process that takes longer for an answer is ended."""
_MODULE: Final = "vil_renderer.embedded.servers.queries"
_COPIED_AT_ONCE_BYTES: Final = 1 << 20
"""Larger answers are copied in a thread, so that they do not hold up the loop."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Value of an answer as bytes, its arrays, and the time that it took in the scene's process."""

    value: msgspec.Raw
    arrays: tuple[Array, ...]
    work_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A question that waits: bytes, arrays, and the future of its answer.

    None = it loads the scene.
    """

    body: bytes
    arrays: Sequence[Array]
    answer: asyncio.Future[Answer] | None

    @property
    def cancelled(self) -> bool:
        """Return True if the asker has given up."""
        return self.answer is not None and self.answer.cancelled()

    def fail(self, error: RendererError) -> None:
        """Raise an error in the asker."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class SceneProcess:
    """Child process that answers questions one after another; it ends when our socket is closed.

    It starts with the first question, and again with the next one after it ended.

    Args:
        load: returns the first question of each start.

    Attributes:
        starts: how often it was started. questions: how many were answered. cancelled: how many
            were skipped.
        work_ns: time that the last answer took in the process, without its transport.
        info: the answer to the last ``load`` as bytes; None = not loaded.
    """

    def __init__(self, load: Callable[[], Question]) -> None:
        self._load = load
        self._questions: deque[_Waiting] = deque()
        self._asked: _Waiting | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._block: SharedBlock | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._closed = False
        self.info: msgspec.Raw | None = None
        self.starts = self.questions = self.cancelled = self.work_ns = 0

    @property
    def pid(self) -> int | None:
        """Process id, None while none runs."""
        return None if self._child is None else self._child.pid

    async def ask(self, question: Question, arrays: Sequence[Array] = ()) -> Answer:
        """Return the answer to a question, after those to earlier ones.

        Raises:
            RendererError: the process refused or ended, or too many questions wait.
        """
        if self._closed:
            raise RendererError("the scene is closed. Open it again to ask")
        if len(self._questions) >= MOST_WAITING:
            raise RendererError(f"{MOST_WAITING} questions wait for the scene. Ask more slowly")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._questions.append(_Waiting(encode(question), arrays, future))
        if self._asked is None:
            self._next()
        return await future

    def close(self) -> None:
        """End the process and release the memory; may be called twice."""
        self._closed = True
        self._end(RendererError("the scene was closed"))

    # --- one question after another ------------------------------------------------------------

    def _next(self) -> None:
        """Send the oldest question that is still wanted."""
        while self._questions:
            if self._questions[0].cancelled:
                self._questions.popleft()
                self.cancelled += 1
                continue
            if self._child is None and not self._start():
                return
            if self.info is None:
                question = _Waiting(encode(self._load()), (), None)
            else:
                question = self._questions.popleft()
            if self._send(question):
                return

    def _send(self, question: _Waiting) -> bool:
        """Send a question; False = it cannot be sent, and its asker knows."""
        assert self._block is not None
        assert self._socket is not None
        try:
            offset, length = self._block.write(question.body, question.arrays)
        except RendererError as exc:
            question.fail(exc)
            return False
        self._asked = question
        self._deadline = asyncio.get_running_loop().call_later(ANSWER_S, self._late)
        with contextlib.suppress(OSError):  # it has ended: the reader notices
            self._socket.send(PACKET.pack(offset, length, self._block.size))
        return True

    def _on_readable(self) -> None:
        assert self._socket is not None
        try:
            packet = self._socket.recv(PACKET.size)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet or self._asked is None:
            self._gone()
            return
        try:
            self._on_answer(packet)
        except ProtocolError as exc:
            self._gone(f"its answer is malformed: {exc}")

    def _on_answer(self, packet: bytes) -> None:
        assert self._block is not None
        if self._deadline is not None:
            self._deadline.cancel()
        offset, length, size = PACKET.unpack(packet)
        self._block.map(size)
        message = self._block.read(offset, length)
        if message.error:
            self._settle(RendererError(message.error))
            return
        shared = [self._block.view(place) for place in message.arrays]
        if sum(array.nbytes for array in shared) <= _COPIED_AT_ONCE_BYTES:
            self._settle(_copied(message, shared))
            return
        loop = asyncio.get_running_loop()
        copying = loop.run_in_executor(None, _copied, message, shared)
        copying.add_done_callback(partial(self._on_copied, self._asked))

    def _on_copied(self, question: _Waiting | None, copying: asyncio.Future[Answer]) -> None:
        if self._asked is question and not copying.cancelled():
            self._settle(copying.result())

    def _settle(self, result: Answer | RendererError) -> None:
        """Give the asker the answer, and send the next question."""
        question = self._asked
        self._asked = None
        assert question is not None
        if isinstance(result, Answer):
            self.work_ns = result.work_ns
        assert self._block is not None
        self._block.trim()
        if question.answer is None:
            self._loaded(result)
        elif isinstance(result, RendererError):
            question.fail(result)
        elif not question.answer.done():
            question.answer.set_result(result)
        self.questions += question.answer is not None
        self._next()

    def _loaded(self, result: Answer | RendererError) -> None:
        if isinstance(result, Answer):
            self.info = result.value
        else:
            self._end(result)

    # --- the process ---------------------------------------------------------------------------

    def _start(self) -> bool:
        """Start the process; False = it cannot be started, and all askers know."""
        try:
            self._block = SharedBlock.create()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                ours.setblocking(False)
                self._socket = ours
                fds = theirs.fileno(), self._block.fd
                self._child = subprocess.Popen(  # noqa: S603 - our own module
                    [sys.executable, "-m", _MODULE, *map(str, fds)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=fds,
                )
        except (OSError, RendererError) as exc:
            self._end(RendererError(f"the scene's process cannot be started: {exc}"))
            return False
        asyncio.get_running_loop().add_reader(ours, self._on_readable)
        self.starts += 1
        if self.starts > 1:
            logger.warning("scene process started again starts=%d", self.starts)
        return True

    def _late(self) -> None:
        self._gone(f"it did not answer within {ANSWER_S:.0f} s")

    def _gone(self, why: str = "") -> None:
        """Fail all that wait; the next question starts another process."""
        pid = self.pid
        status = self._end(None)
        reason = why or f"exit code {status}"
        logger.error("scene process ended pid=%s: %s", pid, reason)
        self._fail_all(
            RendererError(
                f"the scene's process ended: {reason}. Ask again: the next question starts it"
            )
        )

    def _end(self, error: RendererError | None) -> int | None:
        """End the process, fail all that wait with an error if there is one.

        Returns the exit code.
        """
        if self._deadline is not None:
            self._deadline.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
        if self._block is not None:
            self._block.close()
        child = self._child
        self._child = None
        self._socket = None
        self._block = None
        self.info = None
        if error is not None:
            self._fail_all(error)
        if child is None:
            return None
        child.kill()  # it has nothing to lose, and waiting would hold up the loop
        return child.wait()

    def _fail_all(self, error: RendererError) -> None:
        asked = self._asked
        self._asked = None
        for question in (*(() if asked is None else (asked,)), *self._questions):
            question.fail(error)
        self._questions.clear()


def _copied(message: QueryMessage, shared: Sequence[Array]) -> Answer:
    return Answer(message.body, tuple(np.array(array) for array in shared), message.work_ns)
