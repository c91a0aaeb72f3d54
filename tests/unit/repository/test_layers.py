"""Layers of the tests.

A mark that is not true fails, and the end of a run says what took time and what was skipped.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.layers import spread
from tests.support.common import ROOT
from tests.support.programs import run

pytestmark = pytest.mark.process

CONFTEST: Final = """
from tests.layers import Layers

def pytest_configure(config):
    config.pluginmanager.register(Layers())
"""
CASES: Final = """
import socket, subprocess, pytest, zmq

def bind():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))

def start():
    subprocess.run(["true"], check=True)

def test_pure(): pass
def test_pure_binds(): bind()
def test_pure_starts(): start()
def test_pure_binds_with_zeromq():
    with zmq.Context() as context, context.socket(zmq.PUB) as it:
        it.bind("tcp://127.0.0.1:*")

@pytest.mark.wire
def test_wire(): bind()

@pytest.mark.wire
def test_wire_starts(): start()

@pytest.mark.process
def test_process(): start()

def test_module(): pytest.importorskip("numba_is_not_there")
def test_extra(): pytest.skip("could not import 'lcm': No module named 'lcm'")
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("run")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = run(*command, "--rootdir", folder, folder, limit_s=100.0)
    return done.stdout


@pytest.mark.parametrize(
    "case", ["pure_binds", "pure_starts", "pure_binds_with_zeromq", "wire_starts"]
)
def test_a_mark_that_is_not_true_fails(case: str, output: str) -> None:
    assert re.search(rf"^FAILED \S+::test_{case}(?!\w)", output, re.MULTILINE), output


def test_the_others_pass_and_each_layer_is_counted(output: str) -> None:
    assert "4 failed, 3 passed, 2 skipped" in output, output
    for layer, cases in (("pure", 6), ("wire", 2), ("process", 1), ("browser", 0)):
        assert any(
            line.split()[:3] == [layer, str(cases), "cases"] for line in output.splitlines()
        ), output


def test_skipped_cases_name_the_package(output: str) -> None:
    assert "numba_is_not_there is missing: pip install '.[dev]'" in output, output
    assert "lcm is missing: pip install '.[lcm]'" in output, output


def test_of_four_workers_two_stand_back_and_take_what_computes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    note = (
        "import os, pathlib, time, pytest\n"
        "def test_where(worker_id):\n"
        "    time.sleep(0.1)\n"
        f"    with open({str(tmp_path / 'notes')!r}, 'a') as notes:\n"
        "        print(pathlib.Path(__file__).stem, worker_id, "
        "os.getpriority(os.PRIO_PROCESS, 0), file=notes)\n"
    )
    for number in range(6):
        (tmp_path / f"test_computes{number}.py").write_text(note)
        (tmp_path / f"test_waits{number}.py").write_text(
            note.replace("def", "@pytest.mark.wire\ndef")
        )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "-n",
        "4",
    ]
    done = run(*command, "--rootdir", tmp_path, tmp_path, limit_s=100.0, cwd=ROOT)
    assert "12 passed" in done.stdout, done.stdout
    notes = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    for name, worker, niceness in notes:
        stands_back = worker in ("gw2", "gw3")
        assert int(niceness) == min(19, usual + 10 * stands_back)
        assert not (stands_back and name.startswith("test_waits"))
    assert {worker for _, worker, _ in notes} == {"gw0", "gw1", "gw2", "gw3"}


def test_files_that_wait_are_spread_among_those_that_compute() -> None:
    files = {f"tests/e2e/test_w{n}.py": ["wire"] for n in range(2)} | {
        f"tests/unit/test_p{n}.py": [] for n in range(4)
    }
    files["tests/browser/test_b0.py"] = ["browser"]
    items: list[Any] = [
        SimpleNamespace(nodeid=f"{f}::{c}", keywords=k) for f, k in files.items() for c in "ab"
    ]
    spread(items)
    assert [item.nodeid[-1] for item in items] == ["a", "b"] * len(files), "files stay whole"
    order = [item.nodeid.partition("/test_")[2][:2] for item in items[::2]]
    assert order == ["b0", "w0", "p0", "p1", "w1", "p2", "p3"]
