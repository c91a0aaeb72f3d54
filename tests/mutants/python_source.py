"""Mutants of Python: Cosmic Ray's operators without arguments."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.mutants.language import Language, Mutant
from tests.mutants.plain import places, same

__all__ = ["PYTHON"]


def _mutants_of(file: str, source: str) -> dict[int, list[Mutant]]:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(source)))
    lines = source.splitlines()
    around = places(source)
    found: dict[int, list[Mutant]] = {}
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments():
            continue
        operator = operator_class()
        on_line = Counter[int]()
        positions = (position for node in nodes for position in operator.mutation_positions(node))
        for occurrence, ((line, _), _) in enumerate(positions):
            mutant = Mutant(
                *(file, line, around.get(line, ""), lines[line - 1].strip()),
                *(name.removeprefix("core/"), occurrence, on_line[line]),
            )
            on_line[line] += 1
            found.setdefault(line, []).append(mutant)
    return found


def _mutated(source: str, mutant: Mutant) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed = mutate_code(source, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    assert isinstance(changed, str), mutant
    return changed


PYTHON: Final = Language(
    _mutants_of, _mutated, places, lambda _file, source, changed: same(source, changed)
)
