"""Account of test cases.

Those of a former commit that neither the tree nor the table of docs/develop/cases.md has.

``python -m tests.support.account BASE`` collects the cases of a commit and of the working tree. It
lists each former case that is gone, has another layer or became long, and is in no row of the
table. The exit code is then 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.common import ROOT
from tests.support.packages import python_path

__all__ = ["PAGE", "Cases", "Row", "collected", "former_cases", "rows", "unaccounted"]

PAGE: Final = ROOT / "docs" / "develop" / "cases.md"
_PAGE_BUILT: Final = "vil_bridge/web/static"
_KERNEL_BUILT: Final = "libvil_kernel.so"
_CELL: Final = re.compile(r"`(tests/[^`]+::[^`]+)`")
_PLUGIN: Final = """
import json
import os

def pytest_collection_finish(session):
    marks = {"wire", "process", "browser", "long"}
    found = {}
    for item in session.items:
        found[item.nodeid] = sorted(marks & {mark.name for mark in item.iter_markers()})
    with open(os.environ["COLLECTED_CASES"], "w") as file:
        json.dump(found, file)
"""
Cases = Mapping[str, Sequence[str]]
"""Marks of each case: its layer, where it is not pure, and whether it is long."""


class Row(NamedTuple):
    """A row of a table: former cases, and those that show the same now."""

    former: tuple[str, ...]
    now: tuple[str, ...]

    def has(self, case: str) -> bool:
        """Return whether a former case is in this row.

        By its name, its function, or a beginning that ends in `*`.
        """
        return any(
            case == former
            or case.startswith(f"{former}[")
            or (former[-1] == "*" and case.startswith(former[:-1]))
            for former in self.former
        )


def rows(page: str) -> list[Row]:
    """Return the rows of a page's tables that name cases."""
    found = []
    for line in page.splitlines():
        former, *others = (tuple(_CELL.findall(cell)) for cell in line.strip("|").split(" | "))
        now = tuple(case for cell in others for case in cell)
        if line.startswith("|") and (former or now):
            found.append(Row(former, now))
    return found


def unaccounted(before: Cases, now: Cases, table: Sequence[Row]) -> list[str]:
    """Return the former cases that are gone or have other marks, and are in no row."""
    changed = [case for case, marks in before.items() if now.get(case) != marks]
    return sorted(case for case in changed if not any(row.has(case) for row in table))


def collected(tree: Path) -> Cases:
    """Return the cases of a tree, without those of files that cannot be imported here."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "collected_cases.py").write_text(_PLUGIN)
        listed = Path(folder) / "cases.json"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((folder, python_path(tree))),
            "COLLECTED_CASES": str(listed),
        }
        plugins = ["-pno:cacheprovider", "-pno:schemathesis", "-pcollected_cases"]
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "pytest",
                "-q",
                "--collect-only",
                "--continue-on-collection-errors",
                *plugins,
            ],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            if line.startswith("ERROR "):
                print(f"{tree}: {line}", file=sys.stderr)
        found: Cases = json.loads(listed.read_text())
        return found


def former_cases(commit: str) -> Cases:
    """Return the cases of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True
        )
        try:
            if (ROOT / _PAGE_BUILT).is_dir():
                shutil.copytree(ROOT / _PAGE_BUILT, tree / _PAGE_BUILT)
            kernel = ROOT / "vil_bridge" / "kernel" / _KERNEL_BUILT
            (source,) = (tree / "vil_bridge").rglob("tracks.c")  # the room has moved since
            if kernel.exists():
                shutil.copy2(kernel, source.with_name(_KERNEL_BUILT))
            return collected(tree)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def main(commit: str) -> int:
    """List the cases without an account; return the exit code."""
    before = former_cases(commit)
    now = collected(ROOT)
    missing = unaccounted(before, now, rows(PAGE.read_text(encoding="utf-8")))
    for case in missing:
        print(case, "has other marks" if case in now else "is gone")
    same = sum(now.get(case) == marks for case, marks in before.items())
    print(
        f"{len(before)} cases of {commit}: {same} are the same, "
        f"{len(before) - same - len(missing)} are in the table"
    )
    print(f"{len(now)} cases now; without an account: {len(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
