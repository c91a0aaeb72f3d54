"""Draw a sample of mutants that depends on the seed and the lines alone, not on what stands next
to them.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tests.mutants.c_source import C, is_c
from tests.mutants.language import Key, Language, Mutant
from tests.mutants.python_source import PYTHON

__all__ = ["EQUIVALENT", "Sample", "draw", "language_of", "read_equivalent"]

EQUIVALENT: Final = Path(__file__).with_name("equivalent.tsv")


@dataclass(frozen=True)
class Sample:
    """Sample of a room: mutants to try, and those that the list shows to be equivalent."""

    mutants: list[Mutant]
    equivalent: list[Mutant]


def language_of(file: str) -> Language:
    """Return the language of a file by its name."""
    return C if is_c(file) else PYTHON


def _rank(*parts: object) -> bytes:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def _lines(
    seed: int, sources: Mapping[str, str], language: Callable[[str], Language]
) -> Iterable[tuple[str, int]]:
    """Return all lines that are not blank, in the order of the draw.

    Moved files keep their order.
    """
    ranked = []
    for file, source in sources.items():
        around = language(file).places(source)
        seen = Counter[tuple[str, str]]()
        for number, line in enumerate(source.splitlines(), 1):
            if text := line.strip():
                name = (around.get(number, ""), text)
                ranked.append(
                    (_rank(seed, PurePosixPath(file).name, *name, seen[name]), file, number)
                )
                seen[name] += 1
    return ((file, number) for _, file, number in sorted(ranked))


def draw(
    sources: Mapping[str, str],
    seed: int,
    each: int,
    equivalent: Iterable[Key] = (),
    *,
    only: Mapping[str, Collection[int]] | None = None,
    language: Callable[[str], Language] = language_of,
) -> Sample:
    """Draw ``each`` lines of the files, and one mutant on each.

    Those in ``equivalent`` are drawn apart.

    Args:
        only: lines that may be drawn, by file; None: all.
    """
    known, found = set(equivalent), dict[str, dict[int, list[Mutant]]]()
    sample = Sample([], [])
    for file, number in _lines(seed, sources, language):
        if len(sample.mutants) >= each:
            break
        if only is not None and number not in only.get(file, ()):
            continue
        way = language(file)
        source = sources[file]
        if file not in found:
            found[file] = way.mutants_of(file, source)
        options = found[file].get(number, [])
        for mutant in sorted(options, key=lambda option: _rank(seed, option.operator, option.nth)):
            if not way.same(file, source, way.mutated(source, mutant)):
                (sample.equivalent if mutant.key in known else sample.mutants).append(mutant)
                break
    return sample


def read_equivalent(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Return the reasons of the listed mutants."""
    with path.open(encoding="utf-8", newline="") as rows:
        table = csv.reader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(table)
        return {
            (file, place, text, operator, int(nth)): reason
            for file, place, text, operator, nth, reason in table
        }
