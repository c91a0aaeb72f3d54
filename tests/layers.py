"""Layers of the tests.

Each case's layer, the time that each layer takes, and one table of the skipped cases.

A case is ``pure`` unless it is marked ``wire``, ``process`` or ``browser``. A pure case that opens
a socket and a wire case that starts a process fail, so that the marks stay true.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import zmq
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, LoadScheduling

from tests.changed.recording import recorded_seconds
from tests.support import fork_server

LAYERS: Final = ("pure", "wire", "process", "browser")
_SOCKETS: Final = frozenset({"socket.bind", "socket.connect", "socket.sendto"})
_PROCESSES: Final = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
_FORBIDDEN: Final = {"pure": _SOCKETS | _PROCESSES, "wire": _PROCESSES}


_SHARED: Final = ("tests/browser/",)
"""Prefixes of files that share a browser and a bridge."""
_WORKERS_WITH_BACKGROUND: Final = 4
_BACKGROUND: Final = 2
_UNRECORDED_S: Final = 5.0
_STAND_BACK: Final = 10
"""Niceness of the background's workers."""
_WAITING_MARK: Final = re.compile(r"\bmark\.(wire|process|browser)\b")
_LIBRARIES: Final = "/sbin/ldconfig"
"""Program by which ctypes finds the libraries of OpenGL."""


class Layers:
    """Pytest plugin: gives each case its layer, guards it, and prints its time and the skipped
    cases.
    """

    def __init__(self) -> None:
        self._forbidden: set[str] = set()
        sys.addaudithook(_hook(self._forbidden, self._audit))
        _before(zmq.Socket, "bind", lambda: self._audit("socket.bind", ()))
        _before(zmq.Socket, "connect", lambda: self._audit("socket.connect", ()))

    def pytest_configure(self, config: pytest.Config) -> None:
        """Stand back in a worker of the background.

        What only computes leaves the processor to what waits.
        """
        worker = getattr(config, "workerinput", None)
        if worker is not None and background(worker["workerid"], worker["workercount"]):
            os.nice(_STAND_BACK)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect without looking for garbage: thousands of cases stay until the end."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark the cases without a layer as pure, and spread the files that wait among those
        that compute.
        """
        for item in items:
            if not any(layer in item.keywords for layer in LAYERS):
                item.add_marker(pytest.mark.pure)
        spread(items)

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> LoadScheduling:
        """Return a scheduler that gives each file to one worker, and files that share something
        expensive too.
        """
        return _Files(config, log)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Guard the case's layer while it runs."""
        self._forbidden |= _FORBIDDEN.get(_layer_of(item.keywords), frozenset())
        try:
            return (yield)
        finally:
            self._forbidden.clear()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self._forbidden and arguments[:1] != (_LIBRARIES,):
            raise AssertionError(
                f"{event} in a case of a layer without it; mark the case wire or process"
            )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the two tables."""
        reports = [
            r
            for found in terminalreporter.stats.values()
            for r in found
            if isinstance(r, pytest.TestReport)
        ]
        if not reports:
            return
        for title, lines in (
            ("layers", _layers(reports)),
            ("skipped", _skipped(terminalreporter.stats)),
        ):
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.write_line(line)


class _Files(LoadFileScheduling):  # type: ignore[misc]
    """One queue of files.

    The background's workers take those that only compute, the others what waits first.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return next((shared for shared in _SHARED if file.startswith(shared)), file)

    def _reschedule(self, node: Any) -> None:
        if self.workqueue and self._next_of(node) is None:
            if not node.shutting_down:
                node.shutdown()
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        file = self._next_of(node)
        if file is None:
            return
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _next_of(self, node: Any) -> str | None:
        """Return the file that a worker takes next; None = nothing is left for it."""
        waiting = (file for file in self.workqueue if waits(self.config.rootpath / file))
        computing = (file for file in self.workqueue if not waits(self.config.rootpath / file))
        if background(node.gateway.id, self.numnodes):
            return next(computing, None)
        return next(waiting, next(computing, None))


def background(worker: str, workers: int) -> bool:
    """Return True for the last two of four or more workers, which stand back.

    ``worker``: ``gw0`` and so on.
    """
    return (
        workers >= _WORKERS_WITH_BACKGROUND
        and int(worker.removeprefix("gw")) >= workers - _BACKGROUND
    )


@functools.cache
def waits(path: Path) -> bool:
    """Return True for a file, or a folder that shares something, with cases that open sockets or
    start programs.
    """
    return path.is_dir() or _WAITING_MARK.search(path.read_text(encoding="utf-8")) is not None


def spread(items: list[pytest.Item]) -> None:
    """Order the files: those that share a browser first, then pure ones evenly among the others.

    Keep each whole.

    Of each kind the longest come first, as far as their seconds are recorded.
    """
    seconds = recorded_seconds()
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    kinds: defaultdict[object, list[str]] = defaultdict(list)
    for name, cases in files.items():
        shared = name.startswith(_SHARED)
        kinds[
            "shared" if shared else all(_layer_of(case.keywords) == "pure" for case in cases)
        ].append(name)
    for names in kinds.values():
        names.sort(key=lambda name: -seconds.get(name, _UNRECORDED_S))
    place = {
        name: n / len(names)
        for kind, names in kinds.items()
        for n, name in enumerate(names)
        if kind != "shared"
    }
    items[:] = [
        case
        for name in sorted(files, key=lambda name: place.get(name, -1.0))
        for case in files[name]
    ]


def _layer_of(keywords: Any) -> str:
    return next((layer for layer in reversed(LAYERS) if layer in keywords), "pure")


def _hook(
    events: set[str], act: Callable[[str, tuple[Any, ...]], None]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that costs little where the event is not one of these.

    Millions are not.
    """

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in events:
            act(event, arguments)

    return hook


def _before(kind: type, name: str, action: Any) -> None:
    """Call the action before each call of the method."""
    original = getattr(kind, name)

    def guarded(self: object, *arguments: object, **options: object) -> object:
        action()
        return original(self, *arguments, **options)

    setattr(kind, name, guarded)


def _layers(reports: Iterable[pytest.TestReport]) -> Iterable[str]:
    cases: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        layer = _layer_of(report.keywords)
        cases[layer] += report.when == "call"
        seconds[layer] += report.duration
    for layer in LAYERS:
        yield f"{layer:8} {cases[layer]:6} cases {seconds[layer]:7.0f} s"
    forked, started = fork_server.counts()
    where = ", ".join(f"{file} {count}" for file, count in fork_server.executed().most_common())
    yield f"programs {forked:6} forked, {started} executed" + (f" [{where}]" if where else "")


def _skipped(stats: dict[str, list[Any]]) -> Iterable[str]:
    """Return one line for each reason: number of cases, reason, files."""
    where: defaultdict[str, list[str]] = defaultdict(list)
    for report in stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        where[_named(reason.removeprefix("Skipped: "))].append(report.nodeid.partition("::")[0])
    for reason, files in sorted(where.items()):
        yield f"{len(files):4}  {reason}  [{', '.join(sorted(set(files)))}]"
    if not where:
        yield "none"


def _named(reason: str) -> str:
    """Name the package where the reason is a module that cannot be imported."""
    missing = re.match(r"could not import '(\w+)", reason)
    if missing is None:
        return reason
    # Here: it imports pydantic, and most runs name no package.
    from vil_bridge.registry import EXTRA_OF_MODULE

    return f"{missing[1]} is missing: pip install '.[{EXTRA_OF_MODULE.get(missing[1], 'dev')}]'"
