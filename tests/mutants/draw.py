"""Draw a sample of mutants that depends on the seed and the lines alone, not on what stands next to them."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tests.mutants.plain import places, same

__all__ = ["EQUIVALENT", "Key", "Mutant", "Sample", "draw", "mutants_of", "mutated", "read_equivalent"]

EQUIVALENT: Final = Path(__file__).with_name("equivalent.tsv")

# File, enclosing class or function, text of the line, operator, and which of its occurrences on that line.
Key = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Mutant:
    """One changed place: the ``occurrence``-th of an operator in its file, the ``nth`` on its line."""

    file: str
    line: int
    place: str
    text: str
    operator: str
    occurrence: int
    nth: int

    @property
    def key(self) -> Key:
        """Name that stays when lines above are added or removed."""
        return (self.file, self.place, self.text, self.operator, self.nth)


@dataclass(frozen=True)
class Sample:
    """Sample of a room: mutants to try, and those that the list shows to be equivalent."""

    mutants: list[Mutant]
    equivalent: list[Mutant]


def mutants_of(file: str, source: str) -> dict[int, list[Mutant]]:
    """Return every mutant that Cosmic Ray's operators without arguments make of a file, by line."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(source)))
    lines, around = source.splitlines(), places(source)
    found: dict[int, list[Mutant]] = {}
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments():
            continue
        operator, on_line = operator_class(), Counter[int]()
        positions = (position for node in nodes for position in operator.mutation_positions(node))
        for occurrence, ((line, _), _) in enumerate(positions):
            mutant = Mutant(
                *(file, line, around.get(line, ""), lines[line - 1].strip()),
                *(name.removeprefix("core/"), occurrence, on_line[line]),
            )
            on_line[line] += 1
            found.setdefault(line, []).append(mutant)
    return found


def mutated(source: str, mutant: Mutant) -> str:
    """Return the source with the mutant in it."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed = mutate_code(source, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    assert isinstance(changed, str), mutant
    return changed


def _rank(*parts: object) -> bytes:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def _lines(seed: int, sources: Mapping[str, str]) -> Iterable[tuple[str, int]]:
    """Return all lines that are not blank, in the order of the draw; moved files keep their order."""
    ranked = []
    for file, source in sources.items():
        around, seen = places(source), Counter[tuple[str, str]]()
        for number, line in enumerate(source.splitlines(), 1):
            if text := line.strip():
                name = (around.get(number, ""), text)
                ranked.append((_rank(seed, PurePosixPath(file).name, *name, seen[name]), file, number))
                seen[name] += 1
    return ((file, number) for _, file, number in sorted(ranked))


def draw(
    sources: Mapping[str, str],
    seed: int,
    each: int,
    equivalent: Iterable[Key] = (),
    *,
    find: Callable[[str, str], dict[int, list[Mutant]]] = mutants_of,
    change: Callable[[str, Mutant], str] = mutated,
) -> Sample:
    """Draw ``each`` lines of the files, and one mutant on each; those in ``equivalent`` are drawn apart."""
    known, found = set(equivalent), dict[str, dict[int, list[Mutant]]]()
    sample = Sample([], [])
    for file, number in _lines(seed, sources):
        if len(sample.mutants) >= each:
            break
        if file not in found:
            found[file] = find(file, sources[file])
        options = found[file].get(number, [])
        for mutant in sorted(options, key=lambda option: _rank(seed, option.operator, option.nth)):
            if not same(sources[file], change(sources[file], mutant)):
                (sample.equivalent if mutant.key in known else sample.mutants).append(mutant)
                break
    return sample


def read_equivalent(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Return the reasons of the listed mutants."""
    with path.open(encoding="utf-8", newline="") as rows:
        table = csv.reader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(table)
        return {(file, place, text, operator, int(nth)): reason for file, place, text, operator, nth, reason in table}
