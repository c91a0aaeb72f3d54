"""Parser of YAML to plain data, with the place of every value.

Only what a configuration needs: mappings with text keys, sequences, null, booleans, numbers, text.
Size, depth and the expansion of aliases are bounded; duplicate keys are problems.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.composer import Composer

MAX_BYTES: Final = 1 << 20
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 32
_MAX_NUMBER_CHARS: Final = 64

Path = tuple[str | int, ...]

_TAGS: Final = {
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "null", "bool", "int", "float", "str")
}
_NO_KEY: Final = (
    "could not find expected ':'",
    "did not find expected key",
    "mapping values are not allowed in this context",
)
"""Problems of libyaml that are most often a missing space after a colon, or an indentation."""
_NUMBERS: Final = {f"tag:yaml.org,2002:{name}" for name in ("int", "float")}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Place of a value; line and column from 1, or 0 when the origin has no lines."""

    rank: int
    line: int
    column: int
    origin: str

    def __str__(self) -> str:
        return f"{self.origin}:{self.line}:{self.column}" if self.line else self.origin


@dataclass(slots=True)
class Tree:
    """Plain data with the place of each part.

    Attributes:
        places: path to place; a mapping's entry is placed at its key. The empty path is the whole.
        problems: unreadable parts, as (place, path, reason).
    """

    data: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[tuple[Place, Path, str]] = field(default_factory=list)


def parse(text: str, origin: str, *, lines: bool = True) -> Tree:
    """Read one YAML document.

    Args:
        text: the document.
        origin: name of the file, or of the option or variable that holds the text.
        lines: False places everything at ``origin`` itself.
    """
    builder = _Builder(origin, lines)
    start = builder.place(None)
    try:
        root = _Loader(text).get_single_node()
    except yaml.reader.ReaderError as exc:
        builder.tree.problems.append(
            (start, (), f"not readable as YAML: {exc.reason} (byte {exc.position})")
        )
    except UnicodeEncodeError as exc:
        builder.tree.problems.append(
            (start, (), f"not readable as YAML: half of a character (character {exc.start})")
        )
    except yaml.MarkedYAMLError as exc:
        builder.tree.problems.append(
            (builder.place(_within(text, exc.problem_mark)), (), _unreadable(text, exc))
        )
    except RecursionError:
        builder.tree.problems.append((start, (), f"nested deeper than {MAX_DEPTH} levels"))
    else:
        if root is None:
            builder.tree.places[()] = start
        else:
            builder.tree.data = builder.build(root, (), start)
    return builder.tree


def _unreadable(text: str, exc: yaml.MarkedYAMLError) -> str:
    """Describe an error of syntax; frequent mistakes come with their cure."""
    context_mark = _within(text, exc.context_mark)
    problem_mark = _within(text, exc.problem_mark)
    if problem_mark is not None:
        line = text.splitlines()[problem_mark.line]
        if "\t" in line[: len(line) - len(line.lstrip())] or line[problem_mark.column :].startswith(
            "\t"
        ):
            return "a tab. YAML is indented with spaces: replace the tab by spaces"
    begun = ""
    if exc.context and context_mark:
        begun = f"{exc.context} begun at line {context_mark.line + 1}: "
    cure = ""
    if exc.problem in _NO_KEY:
        cure = (
            ". Write `name: value` with a space after the colon, and indent the keys of a section "
            "alike"
        )
    return f"not readable as YAML: {begun}{exc.problem}{cure}"


def _within(text: str, mark: yaml.Mark | None) -> yaml.Mark | None:
    """Return a mark, at most the end of the text: libyaml's end is the line after the last."""
    if mark is None:
        return None
    written = text.rstrip()
    line = written.count("\n")
    column = len(written) - written.rfind("\n") - 1
    return min(
        mark, yaml.Mark("", 0, line, column, None, 0), key=lambda mark: (mark.line, mark.column)
    )


class _Loader(Composer, yaml.CSafeLoader):
    """Composer in Python above libyaml's parser, which stops early.

    Nested nodes are nested calls.
    """

    _depth = 0

    def __init__(self, stream: str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; raise RecursionError far below the depth that Python allows."""
        if self._depth > 2 * MAX_DEPTH:
            raise RecursionError
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Builder:
    """Builder of plain data from the node tree of one document."""

    def __init__(self, origin: str, lines: bool) -> None:
        self.tree = Tree()
        self._origin = origin
        self._lines = lines
        self._scalars = yaml.SafeLoader("")
        self._values = 0
        self._begun: set[int] = set()  # ids of the nodes around

    def place(self, mark: yaml.Mark | None) -> Place:
        if not self._lines:
            return Place(1, 0, 0, self._origin)
        if not mark:
            return Place(0, 1, 1, self._origin)
        return Place(0, mark.line + 1, mark.column + 1, self._origin)

    def build(self, node: yaml.Node, path: Path, place: Place) -> Any:
        """Return plain data of a node; problems leave None in its place."""
        self._values += 1
        self.tree.places[path] = place
        if self._values > MAX_VALUES:
            if self._values == MAX_VALUES + 1:
                self._problem(place, path, f"the file expands to more than {MAX_VALUES} values")
            return None
        if id(node) in self._begun:
            return self._problem(
                place, path, f"an alias of what it is in: nested deeper than {MAX_DEPTH} levels"
            )
        if len(path) >= MAX_DEPTH:
            return self._problem(place, path, f"nested deeper than {MAX_DEPTH} levels")
        if node.tag not in _TAGS:
            return self._problem(
                place, path, f"YAML type {node.tag.rpartition(':')[2]} is not used here; use quotes"
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, place)
        self._begun.add(id(node))
        data: dict[str, Any] | list[Any]
        if isinstance(node, yaml.MappingNode):
            data = self._mapping(node, path)
        else:
            data = self._sequence(node, path)
        self._begun.remove(id(node))
        return data

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        return [
            self.build(item, (*path, i), self.place(item.start_mark))
            for i, item in enumerate(node.value)
        ]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node.start_mark)
            if key_node.tag != "tag:yaml.org,2002:str":
                self._problem(place, path, "a key must be plain text; put it in quotes")
                continue
            key = key_node.value
            key_path = (*path, key)
            if key in data:
                self._problem(
                    place, key_path, f"duplicate key, first given at {self.tree.places[key_path]}"
                )
                continue
            data[key] = self.build(value_node, key_path, place)
        return data

    def _scalar(self, node: yaml.Node, path: Path, place: Place) -> Any:
        if node.tag in _NUMBERS and len(node.value) > _MAX_NUMBER_CHARS:
            return self._problem(
                place, path, f"a number has at most {_MAX_NUMBER_CHARS} characters"
            )
        try:
            return self._scalars.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return self._problem(place, path, f"not a value: {node.value[:40]!r}")

    def _problem(self, place: Place, path: Path, reason: str) -> None:
        self.tree.problems.append((place, path, reason))
