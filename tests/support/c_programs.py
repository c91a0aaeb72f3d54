"""Programs in C around the receiver in C, compiled with every warning and with sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.common import ROOT
from tests.support.programs import run

FOLDER = ROOT / "examples" / "onboard"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{FOLDER}"]
CHECKED = ["-g", "-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compile_c(source: Path, program: Path, *options: str) -> Path:
    """Return the compiled program; skips where compiler, library or sanitizers are absent."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install gcc libzmq3-dev")
    found = subprocess.run(
        [compiler, "-E", "-"], input="#include <zmq.h>", capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip("no zmq.h: apt-get install libzmq3-dev")
    command = [
        compiler,
        *options,
        *STRICT,
        str(source),
        "-o",
        str(program),
        "-lzmq",
        "-lm",
        "-lpthread",
    ]
    done = run(*command)
    if "sanitize" in done.stderr and "cannot find" in done.stderr:
        pytest.skip("no sanitizers: apt-get install libasan8 libubsan1")
    assert done.returncode == 0, done.stderr
    return program
