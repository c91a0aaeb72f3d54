"""Trees of files: the working tree and those of commits, with what their files say about others."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.changed.graph import Facts, Graph, facts
from tests.mutants.rooms import tracked

__all__ = ["Commits", "KnownFacts", "Tree", "WorkTree", "git"]


def git(root: Path, *words: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout


class Tree(Protocol):
    """Files by path; ``blobs`` has git's digest of each file's content."""

    @property
    def blobs(self) -> Mapping[str, str]:
        """Digests by path."""
        ...

    def text(self, path: str) -> str:
        """Return a file's content; bytes that are no text are replaced."""
        ...


class WorkTree:
    """The working tree, with untracked files that git does not ignore."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.blobs = {path: _blob((root / path).read_bytes()) for path in tracked(root)}

    def text(self, path: str) -> str:
        return (self._root / path).read_text(encoding="utf-8", errors="replace")


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _Commit:
    def __init__(self, commits: Commits, revision: str) -> None:
        self._commits = commits
        listed = (
            line.partition("\t")
            for line in git(commits.root, "ls-tree", "-rz", revision).split("\0")
            if line
        )
        self.blobs = {
            path: mode.split()[2] for mode, _, path in listed if mode.split()[1] == "blob"
        }

    def text(self, path: str) -> str:
        return self._commits.content(self.blobs[path])


class Commits:
    """Trees of commits, read by one process of git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._contents: dict[str, str] = {}
        self._git = subprocess.Popen(
            ["git", "cat-file", "--batch"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def tree(self, revision: str) -> Tree:
        return _Commit(self, revision)

    def content(self, blob: str) -> str:
        """Return what a blob holds."""
        if blob not in self._contents:
            self._contents[blob] = self._content(blob)
        return self._contents[blob]

    def _content(self, blob: str) -> str:
        assert self._git.stdin
        assert self._git.stdout
        self._git.stdin.write(f"{blob}\n".encode())
        self._git.stdin.flush()
        size = int(self._git.stdout.readline().split()[2])
        return self._git.stdout.read(size + 1)[:-1].decode(errors="replace")

    def close(self) -> None:
        self._git.communicate()


def _pairs(stored: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, here) for name, here in stored)


class KnownFacts:
    """Facts of files about others, stored in a file by path and content."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Facts] = {}
        if file.exists():
            for key, (imports, typing, started, words) in json.loads(file.read_text()).items():
                self._known[key] = Facts(
                    _pairs(imports), _pairs(typing), tuple(started), tuple(words)
                )

    def graph(self, tree: Tree) -> Graph:
        """Return the graph of a tree."""
        found = {}
        for path, blob in tree.blobs.items():
            if path.endswith((".py", ".sh")):
                key = f"{blob[:16]} {path}"
                if key not in self._known:
                    self._known[key] = facts(path, tree.text(path))
                found[path] = self._known[key]
        return Graph(found, tree.blobs)

    def keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        stored = {
            key: (each.imports, each.typing, each.started, each.words)
            for key, each in self._known.items()
        }
        self._file.write_text(json.dumps(stored))
