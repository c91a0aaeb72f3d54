"""A forked program sees what a started one sees, and is a child like any other."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import fork_server
from tests.support.common import ROOT, wait_until
from tests.support.programs import VIL_BRIDGE, Program, run

pytestmark = pytest.mark.process

FACTS = (sys.executable, "-m", "tests.support.process_facts")


@pytest.fixture(autouse=True)
def own_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the starts of this case alone: other workers start programs too."""
    (tmp_path / "starts").touch()
    monkeypatch.setenv("VIL_TEST_STARTS", str(tmp_path / "starts"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"env": {"VIL_TEST_WORD": "ä"}},
        {"start_new_session": True},
        {"process_group": 0},
        {"input": "typed\n"},
    ],
    ids=lambda options: ",".join(options) or "plain",
)
@pytest.mark.parametrize("prefix", [(), ("nice", "-n", "3")], ids=["", "nice"])
def test_a_forked_program_sees_what_a_started_one_sees(
    prefix: tuple[str, ...], options: dict[str, Any]
) -> None:
    def facts() -> tuple[dict[str, Any], str]:
        more = {"stdin": subprocess.DEVNULL} if "input" not in options else {}
        given = (
            {"cwd": ROOT}
            | more
            | options
            | {"env": fork_server.variables() | options.get("env", {})}
        )
        words = [*prefix, *FACTS, "one", "", "two words", "ü"]
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=60.0, **given
        )
        return json.loads(done.stdout), done.stderr

    before, _ = fork_server.counts()
    forked = facts()
    assert fork_server.counts()[0] == before + 1
    with fork_server.without_forking():
        started = facts()
    assert forked == started
    assert forked[0]["parent"] == os.getpid() and forked[0]["threads"] == "1"


def test_descriptors_keep_their_numbers() -> None:
    reading, writing = os.pipe()
    with Program(*FACTS, stdin=reading) as program:
        os.write(writing, b"through a pipe")
        os.close(writing)
        os.close(reading)
        assert program.wait(60.0) == 0
        assert json.loads(program.text())["input"] == "through a pipe"
    high = os.dup2(os.open(os.devnull, os.O_RDONLY), 150)
    words = [*FACTS]
    done = subprocess.run(
        words,
        stdin=0,
        capture_output=True,
        pass_fds=(high,),
        env=fork_server.variables(),
        check=True,
    )
    os.close(high)
    assert 150 in json.loads(done.stdout)["descriptors"]


@pytest.mark.parametrize(
    ("words", "code"), [(("--end-with", 7), 7), (("--end-by", 9), -9), (("--end-by", 15), -15)]
)
def test_the_end_is_the_programs_own(words: tuple[object, ...], code: int) -> None:
    assert run(*FACTS, *words).returncode == code


def test_limits_that_are_set_next_stay() -> None:
    """As of a report's process, whose memory the bridge bounds once it has started it."""
    for _ in range(20):
        with Program(*FACTS, stdin=subprocess.PIPE) as program:
            resource.prlimit(program.pid, resource.RLIMIT_AS, (4 << 30, 4 << 30))
            assert program.stdin is not None
            program.stdin.close()
            assert program.wait(60.0) == 0, program.text()
            assert json.loads(program.text())["limits"]["RLIMIT_AS"] == [4 << 30, 4 << 30]


def test_many_threads_start_programs_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda code: run(*FACTS, "--end-with", code).returncode, range(24)))
    assert codes == list(range(24))


def test_no_program_outlives_the_one_that_asked() -> None:
    """A killed process takes its server along, and what it started with the prefix of the tests'
    programs.
    """
    code = (
        "from tests.support import fork_server; fork_server.install()\n"
        "from tests.support.programs import Program, VIL_BRIDGE\n"
        "import sys\n"
        "child = Program(sys.executable, '-m', 'tests.support.process_facts', '--end-by', '18')\n"
        "child.await_text('argv'); print(child.pid, flush=True); input()\n"
    )
    with Program(sys.executable, "-c", code, stdin=subprocess.PIPE) as asker:
        pid = int(asker.await_text(r"^(\d+)\n")[1])
        family = [pid, *_children(asker.pid)]
        assert len(family) == 3, "the program, and again among the children beside the server"
        asker.kill()
    wait_until(lambda: not any(map(_lives, family)))


def test_a_program_starts_its_own_from_a_server_of_its_own(tmp_path: Path) -> None:
    """The worker of a simulated source is the bridge's child, and is forked."""
    file = tmp_path / "bridge.yaml"
    sources = (
        "{sim: {type: simulated, room: hall, process: true, vehicles: {quad: {model: "
        "flightgoggles}}}}"
    )
    actors = "{quad: {kind: vehicle, source: sim, subject: quad}}"
    file.write_text(
        f"version: 1\nhttp: {{port: 0}}\nrooms: {{hall: {{}}}}\nsources: {sources}\n"
        f"actors: {actors}\n"
    )
    before, started = fork_server.counts()
    with Program(*VIL_BRIDGE, "run", file) as bridge:
        bridge.await_that(lambda: len(_workers_of(bridge.pid)) == 1, "a worker of its own")
        bridge.await_that(lambda: fork_server.counts()[0] >= before + 2, "both counted as forked")
        assert bridge.end(signal.SIGTERM) == 0
    assert fork_server.counts()[1] == started


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "VIL_KERNEL", "OPENBLAS_NUM_THREADS"])
def test_what_is_read_once_has_a_program_executed(name: str) -> None:
    forked, started = fork_server.counts()
    here = "tests/unit/repository/test_fork_server.py"
    before = fork_server.executed()[here]
    assert run(*VIL_BRIDGE, "version", env={name: "3"}).returncode == 0
    assert fork_server.counts() == (forked, started + 1)
    assert fork_server.executed()[here] == before + 1


def test_a_folder_that_is_not_there_is_refused_as_usual(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "none"))):
        run(*FACTS, cwd=tmp_path / "none")


def _children(pid: int) -> list[int]:
    """Return the processes that are children of a process now."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def _workers_of(pid: int) -> list[int]:
    """Return the workers of simulated sources among the children of a process."""
    lines = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in _children(pid)}
    return [child for child, line in lines.items() if b"source.worker" in line]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
