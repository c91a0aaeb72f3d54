"""Executors of shards: this process, several processes, or Ray's on many machines.

The bytes are the same.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from typing import Any, Final, Protocol

from vil_bridge.core.errors import RendererError
from vil_bridge.offline.files import write_whole
from vil_simulation.dataset.frames import Shard
from vil_simulation.dataset.plan import DatasetPlan
from vil_simulation.dataset.shard_renderer import ShardRenderer, ShardResult
from vil_simulation.learning.ray_cluster import ray_cluster

_MOST_DEATHS: Final = 3
_IN_HAND: Final = 2
"""Shards that a process has at a time: one that it draws, and the next."""


class Executor(Protocol):
    """Workers; each draws a shard at a time."""

    def draw(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """Draw all shards, yield each when it is done; one whose worker died is done again.

        Raises:
            RendererError: the scene cannot be drawn, or workers die again and again.
            OSError: the disk is full.
        """
        ...


def _draw_into(renderer: ShardRenderer, folder: Path, shard: Shard) -> ShardResult:
    """Draw a shard into the data set's folder."""
    return renderer.draw(shard, lambda path, data: write_whole(folder / shard.name / path, data))


class SerialExecutor:
    """This process, in the calling thread."""

    def __init__(self, plan: DatasetPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder

    def draw(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """See :class:`Executor`."""
        with ShardRenderer(self._plan) as renderer:
            for shard in shards:
                yield shard, _draw_into(renderer, self._folder, shard)


class ProcessExecutor:
    """Processes on this machine, which end with this one however it ends.

    Each has a pipe of its own. Queues that processes share stay locked for ever when one is killed
    that reads them.
    """

    def __init__(self, plan: DatasetPlan, folder: Path, workers: int) -> None:
        self._workers = workers
        self._arguments = plan, folder

    def draw(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """See :class:`Executor`."""
        queue = deque(shards)
        workers = [_Worker(*self._arguments) for _ in range(min(self._workers, len(queue)))]
        deaths = 0
        try:
            while queue or any(worker.shards for worker in workers):
                for worker in workers:
                    worker.fill(queue)
                ready = wait_for_any([worker.pipe for worker in workers if worker.shards])
                for number, worker in enumerate(workers):
                    if worker.pipe not in ready:
                        continue
                    answer = worker.answer()
                    if answer is not None:
                        deaths = 0
                        yield answer
                        continue
                    deaths += 1
                    if deaths > _MOST_DEATHS:
                        raise RendererError(
                            f"workers died {deaths} times in a row, at shard "
                            f"{worker.shards[0].key}: is memory short? "
                            "Try fewer workers; the same command continues where it stopped"
                        )
                    queue.extendleft(reversed(worker.shards))
                    worker.end()
                    workers[number] = _Worker(*self._arguments)
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process that draws, as its owner sees it.

    Attributes:
        shards: in its hands, the one that it draws first. pipe: of its answers.
    """

    def __init__(self, plan: DatasetPlan, folder: Path) -> None:
        self.shards: deque[Shard] = deque()
        spawned = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawned.Pipe()
        self._process = spawned.Process(
            target=_work, args=(theirs, plan, folder), name="shards", daemon=True
        )
        self._process.start()
        theirs.close()

    def fill(self, queue: deque[Shard]) -> None:
        """Hand over shards of a queue, so that the next one waits for the worker."""
        while queue and len(self.shards) < _IN_HAND:
            self.shards.append(queue.popleft())
            with contextlib.suppress(OSError):  # it died: reading says so
                self.pipe.send(self.shards[-1])

    def answer(self) -> tuple[Shard, ShardResult] | None:
        """Return the shard that is done; None = the process died.

        Raises:
            Exception: what drawing it raised.
        """
        try:
            answer: ShardResult | Exception = self.pipe.recv()
        except (EOFError, OSError):
            return None
        if isinstance(answer, Exception):
            raise answer
        return self.shards.popleft(), answer

    def end(self) -> None:
        """End the process: what it has not answered is not whole."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(
    pipe: Connection[ShardResult | Exception, Shard], plan: DatasetPlan, folder: Path
) -> None:
    """Draw what comes through a pipe; the process of a worker runs this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started it decides
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent(sentinel: int = parent.sentinel) -> None:
        wait_for_any([sentinel])
        os._exit(0)

    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    try:
        renderer = ShardRenderer(plan)
        while True:
            pipe.send(_draw_into(renderer, folder, pipe.recv()))
    except EOFError:
        return
    except Exception as exc:
        pipe.send(exc)


class RayExecutor:
    """Ray actors with a renderer each (extra ``ray``), on this machine or on those of a cluster.

    Workers that do not see the data set's folder send their files through Ray.

    Args:
        plan: what is drawn. Scene files lie in the same place on all machines.
        folder: of the data set.
        workers: how many; each takes one CPU.
        address: of a running cluster, as Ray writes it (``auto``, ``host:port``); ``local`` = a Ray
            of our own here.
    """

    def __init__(self, plan: DatasetPlan, folder: Path, workers: int, address: str) -> None:
        self._plan = plan
        self._folder = folder
        self._workers = workers
        self._address = address

    def draw(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """See :class:`Executor`.

        Raises:
            VilBridgeError: Ray is not installed or does not start, or actors die again and again.
        """
        landmark = self._folder / ".work" / f"seen-{os.getpid()}"
        with ray_cluster(self._address, workers=self._workers) as ray:
            write_whole(landmark, b"")
            again = {"num_cpus": 1, "max_restarts": _MOST_DEATHS, "max_task_retries": _MOST_DEATHS}
            worker = ray.remote(_RayWorker).options(**again)
            idle: deque[Any] = deque(
                worker.remote(self._plan, self._folder, landmark.name) for _ in range(self._workers)
            )
            queue = deque(shards)
            busy = dict[Any, tuple[Any, Shard]]()
            while queue or busy:
                while queue and idle:
                    actor = idle.popleft()
                    shard = queue.popleft()
                    busy[actor.draw.remote(shard)] = actor, shard
                (ready,), _ = ray.wait(list(busy))
                actor, shard = busy.pop(ready)
                idle.append(actor)
                yield shard, self._received(ray, ready, shard)
        landmark.unlink()

    def _received(self, ray: Any, ready: Any, shard: Shard) -> ShardResult:
        try:
            drawn: ShardResult = ray.get(ready)
        except ray.exceptions.RayActorError as exc:
            raise RendererError(
                f"workers died {_MOST_DEATHS + 1} times at shard {shard.key}: {exc}"
            ) from exc
        except ray.exceptions.RayTaskError as exc:
            if isinstance(exc.cause, (RendererError, OSError)):
                raise exc.cause from None
            raise
        for path, data in drawn.files.items():
            write_whole(self._folder / shard.name / path, data)
        return drawn


class _RayWorker:
    """A Ray actor."""

    def __init__(self, plan: DatasetPlan, folder: Path, landmark: str) -> None:
        self._renderer = ShardRenderer(plan)
        self._folder = folder
        self._shared = (folder / ".work" / landmark).exists()

    def draw(self, shard: Shard) -> ShardResult:
        if self._shared:
            return _draw_into(self._renderer, self._folder, shard)
        files: dict[str, bytes] = {}
        drawn = self._renderer.draw(shard, files.__setitem__)
        return drawn._replace(files=files)
