"""Parts of a module that a change can touch: functions, constants, classes and the rest."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from tests.changed.marks import functions

__all__ = ["Part", "changed", "parts"]

REST: Final = "-"
"""Statements of a module that define no name."""


@dataclass(frozen=True)
class Part:
    """A part of a module.

    Attributes:
        kind: "function" (one that is marked), "constant", "class" or "rest".
        text: what has an effect.
        mentions: names and attributes in it.
        fields, methods, bases: of a class: text and mentions of each field, and names.
    """

    kind: str
    text: str
    mentions: frozenset[str]
    fields: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    methods: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()


def _mentions(nodes: list[ast.AST]) -> frozenset[str]:
    found = set[str]()
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return frozenset(found)


class _Plain(ast.NodeTransformer):
    """Removes docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        self.generic_visit(node)
        return None if isinstance(node.value, ast.Constant) else node


class _Without(ast.NodeTransformer):
    """Removes functions that are parts of their own."""

    def __init__(self, parts: set[int]) -> None:
        self._parts = parts

    def generic_visit(self, node: ast.AST) -> ast.AST | None:  # type: ignore[override]
        return None if id(node) in self._parts else super().generic_visit(node)


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        names = [
            each
            for target in node.targets
            for each in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
        return (
            [each.id for each in names if isinstance(each, ast.Name)]
            if all(isinstance(each, ast.Name) for each in names)
            else []
        )
    return []


def parts(text: str) -> dict[str, Part]:
    """Return the parts of a module by name; methods as ``Class.method``."""
    tree = _Plain().visit(ast.parse(text))
    found = dict[str, Part]()
    nodes: dict[str, list[ast.AST]] = {}
    for name, function in functions(tree.body):
        nodes.setdefault(name, []).append(function)
    for name, each in nodes.items():
        found[name] = Part("function", "\n".join(map(ast.dump, each)), _mentions(each))
    marked = {id(node) for each in nodes.values() for node in each}
    rest: list[ast.AST] = []
    constants: dict[str, list[ast.AST]] = {}

    def class_(node: ast.ClassDef, name: str) -> None:
        fields: dict[str, tuple[str, frozenset[str]]] = {}
        methods = set[str]()
        held: list[ast.AST] = [*node.bases, *node.keywords, *node.decorator_list]
        others = [ast.dump(each) for each in held]
        for child in node.body:
            if id(child) in marked:
                methods.add(getattr(child, "name", ""))
            elif isinstance(child, ast.ClassDef):
                class_(child, f"{name}.{child.name}")
            elif names := _targets(child):
                fields.update(dict.fromkeys(names, (ast.dump(child), _mentions([child]))))
            else:
                others.append(ast.dump(child))
                held.append(child)
        found[name] = Part(
            *("class", "\n".join(others), _mentions(held), fields, frozenset(methods)),
            tuple(getattr(each, "id", getattr(each, "attr", "")) for each in node.bases),
        )

    for node in tree.body:
        if id(node) in marked or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.ClassDef):
            class_(node, node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # machine code
            constants.setdefault(node.name, []).append(node)
        elif names := _targets(node):
            for name in names:
                constants.setdefault(name, []).append(node)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            rest.append(_Without(marked).visit(node))
    constants.pop("__all__", None)
    for name, each in constants.items():
        found[name] = Part("constant", "\n".join(map(ast.dump, each)), _mentions(each))
    found[REST] = Part("rest", "\n".join(map(ast.dump, rest)), _mentions(rest))
    return found


def changed(before: dict[str, Part], after: dict[str, Part]) -> set[str]:
    """Return the names of the parts that differ, are new or are gone."""
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}
