"""What a file that vehicles copy must be: old Python's syntax, and no company."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.support.programs import run


def check_python_3_8(file: Path) -> None:
    """Fails where the file needs a newer Python, by grammar or by what it calls."""
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
    done = run(
        sys.executable,
        "-c",
        "import vermin; vermin.main()",
        "-t=3.8-",
        "--no-tips",
        "--violations",
        file,
    )
    assert done.returncode == 0, done.stdout


def companions(file: Path) -> set[str]:
    """Packages beside the standard library that it imports anywhere; fails at a relative import."""
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None
            imported.add(node.module.partition(".")[0])
    return imported - sys.stdlib_module_names
