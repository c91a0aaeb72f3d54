"""Decide by syntax trees whether a changed source can behave otherwise, and find what encloses a
line.
"""

from __future__ import annotations

import ast
import warnings
from typing import Final

__all__ = ["places", "same", "span"]

# Decorators that do not read the annotations of what they decorate.
_BLIND: Final = {
    *(
        "abstractmethod",
        "asynccontextmanager",
        "cache",
        "cached_property",
        "classmethod",
        "contextmanager",
        "errstate",
    ),
    *("lru_cache", "override", "property", "setter", "singledispatch", "staticmethod"),
}
_LOGGERS: Final = {"log", "_log", "logger", "_logger"}


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call | ast.Subscript):
        return _last_name(node.func if isinstance(node, ast.Call) else node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Plain(ast.NodeTransformer):
    """Removes what has no effect on behaviour: see ``docs/develop/mutants.md``, exclusions."""

    _blind_class = True

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer = self._blind_class
        names = {_last_name(each) for each in [*node.decorator_list, *node.bases]}
        # Other classes may be read by msgspec, pydantic or ctypes, which evaluate annotations.
        self._blind_class = bool(names & {"dataclass", "NamedTuple", "Protocol"})
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _last_name(decorator) == "dataclass":
                decorator.keywords = [each for each in decorator.keywords if each.arg != "slots"]
        node.keywords = [each for each in node.keywords if each.arg != "gc"]
        self.generic_visit(node)
        self._blind_class = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if {_last_name(each) for each in node.decorator_list} <= _BLIND:
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        # Cosmic Ray takes the bare star between parameters for a product.
        parameters = node.args
        parameters.args = parameters.posonlyargs + parameters.args + parameters.kwonlyargs
        parameters.defaults += [each for each in parameters.kw_defaults if each is not None]
        parameters.posonlyargs, parameters.kwonlyargs, parameters.kw_defaults = [], [], []
        outer, self._blind_class = self._blind_class, True
        self.generic_visit(node)
        self._blind_class = outer
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self._blind_class:
            node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        if "__all__" in [_last_name(target) for target in node.targets]:
            return None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if any(
            _last_name(each) == "TYPE_CHECKING"
            for each in ast.walk(node.test)
            if isinstance(each, ast.expr)
        ):
            return None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        value = node.value
        if isinstance(value, ast.Constant):  # a docstring
            return None
        called = value.func if isinstance(value, ast.Call) else None
        if isinstance(called, ast.Attribute) and _last_name(called.value) in _LOGGERS:
            return ast.Expr(called)
        return self.generic_visit(node)


def _plain(source: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            compile(source, "<mutant>", "exec")
        except (SyntaxError, ValueError):
            return None
    return ast.dump(_Plain().visit(ast.parse(source)))


def same(source: str, mutated: str) -> bool:
    """Return whether ``mutated`` does not compile or differs from ``source`` only where
    behaviour cannot.
    """
    changed = _plain(mutated)
    return changed is None or changed == _plain(source)


def places(source: str) -> dict[int, str]:
    """Return the dotted name of the innermost class or function around each line that is in one."""
    found: dict[int, str] = {}

    def enter(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{name}.{child.name}".lstrip(".")
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                found.update(dict.fromkeys(range(first, (child.end_lineno or first) + 1), inner))
            enter(child, inner)

    enter(ast.parse(source), "")
    return found


def span(source: str, line: int) -> tuple[range, bool]:
    """Return the lines of the statement (or of its header) at ``line``, and whether it runs at
    import.
    """
    best, at_import = range(line, line + 1), True
    smallest = 1 << 30

    def enter(node: ast.AST, within: bool) -> None:
        nonlocal best, at_import, smallest
        for child in ast.iter_child_nodes(node):
            inside = within or (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child in node.body
            )
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                first = min(
                    [child.lineno, *(each.lineno for each in getattr(child, "decorator_list", ()))]
                )
                body = getattr(child, "body", None)
                last = max(first, body[0].lineno - 1) if body else child.end_lineno or first
                if isinstance(child, ast.Match):
                    last = child.subject.end_lineno or first
                if first <= line <= last and last - first < smallest:
                    smallest, best, at_import = last - first, range(first, last + 1), not inside
            enter(child, inside)

    enter(ast.parse(source), False)
    return best, at_import
