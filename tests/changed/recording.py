"""The stored recording: what each test file ran, and its seconds.

``reach.txt`` has a line for each test file, ``ID DIGEST SECONDS PATH``, and for each module its
path, then a line for each set of test files, ``IDS: PART ...``, with the parts that just these ran:
functions and methods, ``-`` for the import, ``=`` for reading the file as text or data. ``~: PART
...`` are those that no test file ran. An ID has two characters, is a number to base 36, and stays
with its test file. Large sets are ``*`` and a number to base 64, whose bits are IDs.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["IMPORT", "REACH", "READ", "Recording", "digest", "is_test", "recorded_seconds"]

REACH: Final = Path(__file__).with_name("reach.txt")
IMPORT: Final = "-"
"""Part of a module that runs when it is imported."""
READ: Final = "="
"""Part of any file or folder: it was opened or listed."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def is_test(path: str) -> bool:
    """Return whether pytest collects a file."""
    return path.startswith("tests/") and PurePosixPath(path).match("test_*.py")


def recorded_seconds() -> dict[str, float]:
    """Return the seconds of each recorded test file."""
    rows = (line.split() for line in REACH.read_text(encoding="utf-8").splitlines())
    return {
        words[3]: float(words[2])
        for words in rows
        if len(words) == 4 and not words[0].endswith(":")
    }


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _packed(ids: set[str]) -> str:
    """Return the shorter text of a set of IDs."""
    number = sum(1 << int(each, 36) for each in ids)
    bits = (
        base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "little"))
        .decode()
        .rstrip("=")
    )
    return min("".join(sorted(ids)) or "~", f"*{bits}", key=len)


def _unpacked(key: str) -> set[str]:
    if not key.startswith("*"):
        return {key[at : at + 2] for at in range(0, len(key.strip("~")), 2)}
    number = int.from_bytes(base64.b64decode(key[1:] + "=="), "little")
    return {a + b for a in _DIGITS for b in _DIGITS if number >> int(a + b, 36) & 1}


@dataclass
class Recording:
    """Parts of modules that test files ran.

    Attributes:
        digests, seconds: of each test file.
        ran: test files by module and part.
    """

    digests: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    ran: defaultdict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    _ids: dict[str, str] = field(default_factory=dict)

    def note(
        self, file: str, text: str, seconds: float, reached: Iterable[tuple[str, str]]
    ) -> None:
        """Replace what is known of a test file."""
        self.forget(file)
        self.digests[file] = digest(text)
        self.seconds[file] = seconds
        for module, part in reached:
            self.ran[module].setdefault(part, set()).add(file)

    def modules(self) -> Counter[str]:
        """Return how many modules each test file ran functions of.

        Few for the tests of one module.
        """
        return Counter(
            file
            for parts in self.ran.values()
            for file in set().union(
                *(files for part, files in parts.items() if part not in (IMPORT, READ))
            )
        )

    def forget(self, file: str) -> None:
        """Remove a test file."""
        for parts in self.ran.values():
            for files in parts.values():
                files.discard(file)
        self.digests.pop(file, None)
        self.seconds.pop(file, None)

    def hold(self, parts: Iterable[tuple[str, str]]) -> None:
        """Hold these parts and no others."""
        held: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
        for module, part in parts:
            held[module][part] = self.ran[module].get(part, set())
        self.ran = held

    def text(self) -> str:
        """Return the recording as stored."""
        free = (a + b for a in _DIGITS for b in _DIGITS)
        taken = {self._ids[file] for file in self.digests if file in self._ids}
        ids = {
            file: self._ids.get(file) or next(each for each in free if each not in taken)
            for file in self.digests
        }
        lines = [
            f"{ids[file]} {self.digests[file]} {self.seconds[file]:.2f} {file}"
            for file in sorted(ids)
        ]
        for module in sorted(self.ran):
            groups: defaultdict[str, set[str]] = defaultdict(set)
            for part, files in self.ran[module].items():
                if files or part not in (IMPORT, READ):
                    groups[_packed({ids[file] for file in files})].add(part)
            if groups:
                lines.append(module)
                lines += [
                    f"{key}: {' '.join(sorted(groups[key]))}"
                    for key in sorted(groups, key=lambda key: min(groups[key]))
                ]
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str) -> Recording:
        """Return a stored recording."""
        found = cls()
        module = ""
        files = dict[str, str]()
        for line in text.splitlines():
            words = line.split()
            if len(words) == 1:
                module = line
            elif words[0].endswith(":"):
                key = words[0][:-1]
                names = {files[each] for each in _unpacked(key)}
                for part in words[1:]:
                    found.ran[module][part] = set(names)
            else:
                files[words[0]] = words[3]
                found.digests[words[3]] = words[1]
                found.seconds[words[3]] = float(words[2])
        found._ids = {file: key for key, file in files.items()}
        return found

    @classmethod
    def read(cls) -> Recording:
        """Return what is stored, or an empty recording."""
        return cls.parse(REACH.read_text()) if REACH.exists() else cls()

    def write(self) -> None:
        REACH.write_text(self.text())
