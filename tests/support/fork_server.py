"""Fork server: a process that has imported our programs, from which tests fork them instead of
executing each.

:func:`install` lets ``subprocess.Popen`` hand commands ``PYTHON -m MODULE`` of our own modules to
the server. A program is a child of the process that asked for it: its end, its signals and its exit
code are those of any child. It has its own descriptors, environment, folder, limits and command
line. A program that starts others gets a server of its own, before its first thread. Everything
else starts as usual: other interpreters, console scripts, terminals, and variables that an
interpreter or a library reads when it starts. Libraries for matrices have one thread where none of
these says how many.

A forked program differs from an executed one in four ways: all our modules are imported already,
its commands, the schemas of its HTTP application and the models of most scenes are made already,
linear algebra has one thread unless more are asked for, and its end does not take modules down.
Cases about these use the console script, or ``python -c``.

How a program becomes the asker's child: the server forks twice, and the asker adopts orphans for as
long as it waits (``PR_SET_CHILD_SUBREAPER``, prctl(2)).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import random
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy

from tests.support.import_all import modules_of
from tests.support.packages import PACKAGES

__all__ = [
    "begin_counts",
    "counts",
    "executed",
    "install",
    "serve_forever",
    "variables",
    "without_forking",
]

_COUNTS_VARIABLE: Final = "VIL_TEST_STARTS"
"""Environment variable with the file that gets a line for each start of a program."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = (*PACKAGES, "tests")
_STARTERS: Final = frozenset({"vil_bridge"})
"""Modules that start further programs."""
_NOT_PRELOADED: Final = ("vil_simulation.learning", "vil_benchmarks")
"""Rooms whose libraries are large, or which prepare an interpreter for their own use."""
_INTERPRETER_VARIABLES: Final = (
    "PYTHON",
    "LD_PRELOAD",
    "LANG",
    "LC_",
    "COVERAGE",
    "NUMBA_",
    "OPENBLAS_",
    "OMP_",
    "MKL_",
    "NPY_",
    "VIL_KERNEL",
)
"""Beginnings of variables that are read once, when an interpreter or a library starts."""
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Of the libraries for matrices: a process with threads cannot be forked safely."""
_MEASURING: Final = frozenset({"COVERAGE_PROCESS_START", "VIL_CHANGED_MARKS"})
"""Variables of coverage and of ``tests.changed.record``."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_COMMAND_LINE_BYTES: Final = 8192
_MESSAGE_BYTES: Final = 1 << 17
_DESCRIPTORS: Final = 64
_FREE_DESCRIPTOR: Final = 200
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class _Request:
    """A program to fork.

    Attributes:
        module: what runs as ``__main__``; ``words``: its arguments.
        places: descriptor numbers of the program, in the order of the message's descriptors.
        parent: process that adopts the program.
        death_signal: signal of the program when its parent ends; 0 = none.
        scheduling: policy and priority of the asking thread (sched(7)), and its niceness.
        limits: soft and hard limit of each resource.
    """

    module: str
    words: list[str]
    folder: str
    environment: dict[str, str]
    places: list[int]
    parent: int
    death_signal: int
    session: bool
    group: int
    scheduling: tuple[int, int, int]
    limits: dict[str, tuple[int, int]]


# --- the asking side ---------------------------------------------------------------------------


class _Asker:
    """A process's connection to its server, which is started at the first request where there is
    none.

    Args:
        connection: of a server that runs already; None = start one.
        await_end: waits for that server's end.
    """

    def __init__(
        self,
        connection: socket.socket | None = None,
        await_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._connection = connection
        self._await_end = await_end
        self._lock = threading.Lock()

    def fork(self, request: _Request, descriptors: Sequence[int]) -> int:
        """Return the process of a program, which is a child of this process."""
        with self._lock:
            connection = self._connected()
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(connection, [json.dumps(asdict(request)).encode()], descriptors)
                answer = connection.recv(64)
            finally:
                _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        if not answer:
            raise RuntimeError(
                "the fork server of the tests has ended: see its traceback on standard error"
            )
        return int(answer)

    def close(self) -> None:
        """End the server, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._await_end()

    def _connected(self) -> socket.socket:
        if self._connection is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                words = [
                    sys.executable,
                    "-m",
                    __name__,
                    str(theirs.fileno()),
                    "-" * _COMMAND_LINE_BYTES,
                ]
                with without_forking():
                    child = subprocess.Popen(
                        words,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                        cwd=_ROOT,
                        env=variables(),
                    )
            self._connection = ours
            self._await_end = child.wait
        return self._connection


def variables() -> dict[str, str]:
    """Return the environment of the server: this process's, with one thread."""
    return {**os.environ, **_ONE_THREAD}


_server_variables: dict[str, str] = {}
_asker: _Asker | None = None
_execute_plainly = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_this_thread = threading.local()


def install() -> None:
    """Let this process fork our programs.

    None where something measures programs from their start.
    """
    global _asker
    if not _MEASURING.isdisjoint(os.environ):
        return
    _server_variables.update(_read_at_start(variables()))
    _asker = _Asker()
    atexit.register(_asker.close)
    subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]


@contextlib.contextmanager
def without_forking() -> Iterator[None]:
    """Let this thread start programs as usual until the end of the block."""
    _this_thread.executes = True
    try:
        yield
    finally:
        _this_thread.executes = False


def begin_counts() -> None:
    """Count the starts of this process and of all that it starts."""
    fd, path = tempfile.mkstemp(prefix="vil-test-starts-")
    os.close(fd)
    atexit.register(os.unlink, path)
    os.environ[_COUNTS_VARIABLE] = path


def counts() -> tuple[int, int]:
    """Return how many of our programs were forked and how many were executed in this test run."""
    path = os.environ.get(_COUNTS_VARIABLE)
    lines = Path(path).read_text().splitlines() if path else []
    forked = sum(line.startswith("forked ") for line in lines)
    return forked, len(lines) - forked


def executed() -> Counter[str]:
    """Return how many of our programs each test file had executed in this test run."""
    path = os.environ.get(_COUNTS_VARIABLE)
    lines = Path(path).read_text().splitlines() if path else []
    return Counter(line.rpartition(" ")[2] for line in lines if line.startswith("executed "))


def _execute(
    self: subprocess.Popen[Any],
    args: Any,
    executable: Any,
    preexec_fn: Any,
    close_fds: bool,
    pass_fds: Sequence[int],
    cwd: Any,
    env: Mapping[str, str] | None,
    startupinfo: Any,
    creationflags: Any,
    shell: bool,
    p2cread: int,
    p2cwrite: int,
    c2pread: int,
    c2pwrite: int,
    errread: int,
    errwrite: int,
    restore_signals: bool,
    gid: Any,
    gids: Any,
    uid: Any,
    umask: int,
    start_new_session: bool,
    process_group: int,
) -> None:
    """Do what ``Popen._execute_child`` does, whose arguments these are.

    Fork where that gives the same program.
    """
    ours = (
        [os.fspath(word) for word in args] if isinstance(args, list | tuple) and not shell else []
    )
    command = _command(ours)
    plain = (
        (executable, preexec_fn, gid, gids, uid) == (None,) * 5
        and umask < 0
        and close_fds
        and restore_signals
    )
    streams = {0: p2cread, 1: c2pwrite, 2: errwrite}
    environment = _ONE_THREAD | dict(os.environ if env is None else env)
    if (
        _asker is None
        or getattr(_this_thread, "executes", False)
        or command is None
        or not plain
        or any(os.isatty(number if fd < 0 else fd) for number, fd in streams.items())
        or _read_at_start({**_ONE_THREAD, **environment}) != _server_variables
        or not Path(cwd or ".").is_dir()
    ):
        _count(command, ours)
        _execute_plainly(
            self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
            creationflags, shell,
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids,
            uid, umask,
            start_new_session, process_group,
        )  # fmt: skip
        return
    sys.audit("subprocess.Popen", ours[0], ours, cwd, env)
    places = [*streams, *pass_fds]
    sources = [*(number if fd < 0 else fd for number, fd in streams.items()), *pass_fds]
    policy = os.sched_getscheduler(0)
    if policy & os.SCHED_RESET_ON_FORK:
        policy = os.SCHED_OTHER
    priority = os.sched_getparam(0).sched_priority if policy in (os.SCHED_FIFO, os.SCHED_RR) else 0
    request = _Request(
        module=command.module,
        words=command.words,
        folder=str(Path(cwd or ".").absolute()),
        environment=environment,
        places=places,
        parent=os.getpid(),
        death_signal=command.death_signal,
        session=start_new_session,
        group=process_group,
        scheduling=(policy, priority, os.getpriority(os.PRIO_PROCESS, 0) + command.niceness),
        limits=_limits(),
    )
    self.pid = _asker.fork(request, sources)
    self._child_created = True  # type: ignore[attr-defined]
    _note(f"forked {command.module}")
    self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class _Command:
    module: str
    words: list[str]
    death_signal: int
    niceness: int


def _command(words: list[str]) -> _Command | None:
    """Return what a command line runs of our modules, behind the prefixes that tests and product
    use; None = none.
    """
    rest = list(words)
    death_signal = 0
    niceness = 0
    if rest[:3] == ["setpriv", "--pdeathsig", "KILL"]:
        rest = rest[3:]
        death_signal = int(signal.SIGKILL)
    if rest[:2] == ["env", "--default-signal=INT,HUP"]:
        rest = rest[2:]
    if rest[:2] == ["nice", "-n"]:
        rest, niceness = rest[3:], int(rest[2])
    if (
        rest[:2] != [sys.executable, "-m"]
        or len(rest) < 3
        or rest[2].partition(".")[0] not in _PACKAGES
    ):
        return None
    return _Command(rest[2], rest[3:], death_signal, niceness)


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in variables.items() if name.startswith(_INTERPRETER_VARIABLES)
    }


def _limits() -> dict[str, tuple[int, int]]:
    names = (name for name in dir(resource) if name.startswith("RLIMIT_"))
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def _count(command: _Command | None, words: list[str]) -> None:
    """Note a start of one of our own entry points, as a module or as a console script."""
    script = next((Path(word).name for word in words if Path(word).name == "vil-bridge"), None)
    if command is not None and not command.module.startswith("tests"):
        _note(f"executed {command.module}")
    elif script is not None:
        _note(f"executed {script}")


def _note(line: str) -> None:
    path = os.environ.get(_COUNTS_VARIABLE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{line} {os.environ.get('PYTEST_CURRENT_TEST', '').partition('::')[0]}\n")


# --- the server --------------------------------------------------------------------------------


def serve_forever(descriptor: int) -> NoReturn:
    """Serve the process at the other end of a socket until it closes it."""
    _server_variables.update(_read_at_start(os.environ))
    subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]
    _preload()
    _run(socket.socket(fileno=descriptor))


def _preload() -> None:
    """Import all that programs of ours import; what is not installed is left out."""
    for package in PACKAGES:
        for name in modules_of(package):
            if not name.startswith(_NOT_PRELOADED):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
    importlib.import_module("tests.support.prepared_programs").prepare_programs()
    with contextlib.suppress(ImportError):
        importlib.import_module("tests.support.shipped_models").prepare("empty", "hall")
    gc.collect()
    gc.freeze()


def _serve(connection: socket.socket) -> _Request | None:
    """Answer requests until the asker has closed its end.

    Return None then, and in each program its request.

    An answer comes when the program has all properties that were asked for, as ``Popen`` returns
    after the execution.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"a process with {len(threads)} threads cannot be forked safely"
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, _DESCRIPTORS)
        except ConnectionResetError:
            return None
        if not message:
            return None
        request = _Request(**json.loads(message))
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            middle = os.getpid()
            program = os.fork()
            if program:
                os.write(writing, str(program).encode())
                os._exit(0)
            os.close(reading)
            connection.close()
            above = max(_FREE_DESCRIPTOR, *request.places) + 1
            ready = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, above)
            os.close(writing)
            _place(descriptors, request.places, above)
            _await_adoption(middle, request.parent)
            _become(request)
            os.close(ready)
            return request
        os.close(writing)
        for fd in descriptors:
            os.close(fd)
        os.waitpid(between, 0)
        with os.fdopen(reading, "rb") as pipe, contextlib.suppress(BrokenPipeError):
            # At the end of the pipe, when the program is what it was asked to be.
            connection.send(pipe.read())


def _place(descriptors: Sequence[int], places: Sequence[int], above: int) -> None:
    """Give the received descriptors the program's numbers, by way of numbers that are above all
    of these.
    """
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in descriptors]
    for fd in descriptors:
        os.close(fd)
    for fd, place in zip(high, places, strict=True):
        os.dup2(fd, place, inheritable=True)
        os.close(fd)


def _await_adoption(middle: int, parent: int) -> None:
    """Wait until the process between server and program has ended.

    End where the asker has ended too.
    """
    while os.getppid() == middle:
        time.sleep(0.0002)
    if os.getppid() != parent:
        os._exit(1)


def _run(connection: socket.socket) -> NoReturn:
    """Serve; in each program that is forked, run it."""
    request = _serve(connection)
    if request is None:
        os._exit(0)
    if request.module in _STARTERS:
        _attach_server(request.places)
    module = sys.modules.get(request.module)
    sys.modules.pop(
        f"{request.module}.__main__" if hasattr(module, "__path__") else request.module, None
    )
    try:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)
        sys.exit()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _end(end.code or 0)
        raise


def _end(code: int) -> None:
    """End as an interpreter does, but leave the modules be.

    Taking them down would copy all memory of the server.

    Returns when a stream cannot be written to, which the interpreter then reports.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code & 0xFF)


def _become(request: _Request) -> None:
    """Give this process the properties that the program's would have."""
    if request.death_signal:
        _LIBC.prctl(_PR_SET_PDEATHSIG, request.death_signal, 0, 0, 0)
    if request.session:
        os.setsid()
    if request.group >= 0:
        os.setpgid(0, request.group)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for name, limits in request.limits.items():
        kind = getattr(resource, name)
        soft, hard = limits
        if resource.getrlimit(kind) != (soft, hard):
            resource.setrlimit(kind, (soft, hard))
    policy, priority, niceness = request.scheduling
    if (policy, priority) != (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority):
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    sys.path[0] = request.folder
    sys.argv = [request.module, *request.words]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    _write_command_line(sys.orig_argv)
    _open_streams()
    random.seed()
    numpy.random.seed()


def _attach_server(places: Sequence[int]) -> None:
    """Fork a server for the programs that this one will start; it ends with this one."""
    global _asker
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = os.fork()
    if server == 0:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for place in places:
            os.dup2(nothing, place) if place <= 2 else os.close(place)
        os.close(nothing)
        _run(theirs)
    theirs.close()
    _asker = _Asker(ours, lambda: os.waitpid(server, 0))
    atexit.register(_asker.close)


def _open_streams() -> None:
    """Open the standard streams again, as they were set up for another kind of file."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        binary = open(fd, "wb" if fd else "rb", 0 if old.write_through else -1, closefd=False)  # noqa: SIM115
        how = {"line_buffering": old.line_buffering, "write_through": old.write_through}
        stream = io.TextIOWrapper(binary, old.encoding, old.errors, **how)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _write_command_line(words: Sequence[str]) -> None:
    """Write over the command line that the system shows of this process (``/proc/PID/cmdline``).

    Zeros follow it.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin = int(fields[45])
    end = int(fields[46])
    text = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - begin]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    from tests.support import fork_server

    fork_server.serve_forever(int(sys.argv[1]))
