"""Interface of a language, from whose files mutants are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Key", "Language", "Mutant"]

# File, enclosing class or function, text of the line, operator, and which of its occurrences on
# that line.
Key = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Mutant:
    """One changed place.

    The ``occurrence``-th of an operator in its file, the ``nth`` on its line.
    """

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


class Language(NamedTuple):
    """Functions of a language.

    Attributes:
        mutants_of: every mutant of a file and its source, by line.
        mutated: the source with a mutant in it.
        places: name of the innermost function (or class) around each line of a source that is in
            one.
        same: whether a file's changed source does not compile, or behaves as its source does.
    """

    mutants_of: Callable[[str, str], dict[int, list[Mutant]]]
    mutated: Callable[[str, Mutant], str]
    places: Callable[[str], dict[int, str]]
    same: Callable[[str, str, str], bool]
