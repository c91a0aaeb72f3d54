"""Select the test files that a change can reach."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from tests.changed.graph import Graph
from tests.changed.marks import is_blind
from tests.changed.parts import Part, changed, parts
from tests.changed.recording import IMPORT, READ, Recording, digest, is_test
from tests.changed.trees import Tree

__all__ = ["Selection", "differing", "select"]

_EVERYTHING: Final = (
    "tests/conftest.py",
    "tests/layers.py",
    "tests/__init__.py",
    "scripts/setup.sh",
    "hatch_build.py",
)
_PYTEST_OF_MAKE: Final = re.compile(
    r"^(?:PYTEST|unexport|pytest|setup)\b[^\n]*(?:\n\t[^\n]*)*", re.MULTILINE
)
_WITHOUT_METHODS: Final = (
    "ABC",
    "Enum",
    "Exception",
    "Generic",
    "NamedTuple",
    "Protocol",
    "Struct",
)
_READ_BY_PYTEST: Final = "pyproject.toml"
_PAGE: Final = "vil_bridge/web/frontend/"
_BROWSER: Final = "tests/browser/"
_READ_BY_PYTHON: Final = (
    ".md",
    ".yaml",
    ".yml",
    ".json",
    ".csv",
    ".tsv",
    ".txt",
    ".toml",
    ".hex",
    ".webp",
    ".jpg",
    ".png",
)


@dataclass
class Selection:
    """Test files, each with what of the change reaches it first.

    Attributes:
        direct: those of them that are changed themselves or import a changed file.
        everything: the file because of which all are selected, or "".
        unread: changed files that no test file reads or runs, as far as is known.
    """

    files: dict[str, str] = field(default_factory=dict)
    direct: set[str] = field(default_factory=set)
    everything: str = ""
    unread: list[str] = field(default_factory=list)


def _common(path: str, before: str, after: str) -> bool:
    """Return whether a change of this file can change how every test runs."""
    if path in _EVERYTHING:
        return True
    if path == "Makefile":
        return _PYTEST_OF_MAKE.findall(before) != _PYTEST_OF_MAKE.findall(after)
    if path == "pyproject.toml":
        old, new = (tomllib.loads(text) if text else {} for text in (before, after))
        return any(_of_tests(old)[name] != _of_tests(new)[name] for name in _of_tests(new))
    if path == "requirements.lock":  # what is new has no user but changed code
        old_pins, new_pins = (
            set(re.findall(r"^\S+==\S+", text, re.MULTILINE)) for text in (before, after)
        )
        return not old_pins <= new_pins
    return False


def _of_tests(project: Mapping[str, dict[str, object]]) -> dict[str, object]:
    tool: Any = project.get("tool", {})
    pytest = tool.get("pytest", {}).get("ini_options", {})
    return {
        "pytest": {name: value for name, value in pytest.items() if name != "markers"},
        "hatch": tool.get("hatch"),
        "build": project.get("build-system"),
        "scripts": project.get("project", {}).get("scripts"),
        "entry-points": project.get("project", {}).get("entry-points"),
    }


class _Selector:
    def __init__(self, before: Tree, after: Tree, graph: Graph, recording: Recording) -> None:
        self._before = before
        self._after = after
        self._graph = graph
        self._recording = recording
        self._tests = {path for path in after.blobs if is_test(path)}
        self._recorded = {file for file in self._tests if file in recording.digests}
        self._unchanged = {
            file for file in self._recorded if recording.digests[file] == digest(after.text(file))
        }
        self._without = set[str]()  # what did not import the changed module
        self._seen = set[tuple[str, str, str]]()
        self._parsed: dict[str, dict[str, Part]] = {}
        self._path = ""
        self.files: dict[str, str] = {}
        self.reached = False

    # --- what is selected ----------------------------------------------------------------------

    def _take(self, files: Iterable[str]) -> None:
        for file in files:
            if file in self._tests and file not in self._without:
                self.files.setdefault(file, self._path)
                self.reached = True

    def _once(self, *what: str) -> bool:
        """Return whether this was not visited for the present file."""
        key = (what[0], what[1], what[2] if len(what) > 2 else "")
        fresh = key not in self._seen
        self._seen.add(key)
        return fresh

    def file(self, path: str) -> None:
        """Select what a changed file reaches."""
        self._path = path
        self.reached = False
        self._seen.clear()
        self._without = set()
        known = self._recording.ran.get(path, {})
        if path != _READ_BY_PYTEST:
            self._take(known.get(READ, ()))
        if path not in self._before.blobs or path not in self._after.blobs:
            self._listed(path)
        if is_test(path):
            self._take([path])
        elif path.endswith(".py"):
            self._module(path)
            self._without = set()
        else:
            self._data(path, known)
        self._unrecorded(path)

    def _listed(self, path: str) -> None:
        """Select what lists the folder of a file that is new or gone."""
        folder = PurePosixPath(path).parent
        suffix = PurePosixPath(path).suffix
        self._take(
            self._recording.ran.get(str(folder), {}).get(READ, ()) if str(folder) != "." else ()
        )
        beside = [
            parts.get(READ, set())
            for other, parts in self._recording.ran.items()
            if PurePosixPath(other).parent == folder and PurePosixPath(other).suffix == suffix
        ]
        if beside:
            self._take(set.intersection(*beside))

    # --- Python --------------------------------------------------------------------------------

    def _parts(self, path: str) -> dict[str, Part]:
        if path not in self._parsed:
            self._parsed[path] = parts(self._after.text(path)) if path in self._after.blobs else {}
        return self._parsed[path]

    def _module(self, path: str) -> None:
        before = parts(self._before.text(path)) if path in self._before.blobs else {}
        after = self._parts(path)
        if not before:  # what uses it has changed too
            return
        if is_blind(path) or not self._known(path):
            if before != after:
                self._whole(path)
            return
        self._without = self._unchanged - self._recording.ran[path].get(IMPORT, set())
        for name in changed(before, after):
            self._part(path, name, before.get(name), after.get(name))

    def _known(self, path: str) -> bool:
        return any(part != READ for part in self._recording.ran.get(path, ()))

    def _part(self, path: str, name: str, old: Part | None, new: Part | None) -> None:
        part = new or old
        assert part
        if part.kind == "function" and (old is None or old.kind == "function"):
            if old:
                self._function(path, name)
            elif "." in name:
                self._new_method(path, name)
        elif part.kind == "constant":
            self._name(path, name)
        elif part.kind == "rest":
            self._whole(path)
        elif old and new and old.kind == new.kind == "class":
            if (old.text, old.bases) != (new.text, new.bases):
                self._class(path, name)
            elif old.fields != new.fields:
                self._fields(
                    path,
                    name,
                    {each for each in old.fields if old.fields[each] != new.fields.get(each)},
                )
        elif old:
            self._class(path, name)

    def _new_method(self, path: str, name: str) -> None:
        """Select what a new method reaches by overriding another one.

        Its callers have changed too.
        """
        class_, _, method = name.rpartition(".")
        part = self._parts(path).get(class_)
        if method.startswith("__") or (
            part and any(self._defines(path, base, method) for base in part.bases)
        ):
            self._class(path, class_)

    def _defines(self, path: str, class_: str, method: str) -> bool:
        """Return whether a class has a method.

        One that is not ours may have any without an underscore.
        """
        if class_ in self._parts(path):
            part = self._parts(path)[class_]
            return method in part.methods or any(
                self._defines(path, base, method) for base in part.bases if base != class_
            )
        for dotted, here in self._graph.imports(path):
            if here == class_:
                target, name = self._graph.place(dotted)
                if target and name in self._parts(target):
                    return self._defines(target, name, method)
        return not method.startswith("_") and class_ not in _WITHOUT_METHODS

    def _function(self, path: str, name: str) -> None:
        """Select what ran a function.

        Where it is newer than the recording, what ran any of its module.
        """
        ran = self._recording.ran.get(path, {})
        if name in ran:
            self._take(ran[name])
            self._stale(path)
        else:
            self._all(path)

    def _all(self, path: str) -> None:
        """Select what ran any function of a module."""
        if not self._once("all", path):
            return
        if is_test(path):
            self._take(self._recorded & {path})
        elif self._known(path):
            for part, files in self._recording.ran[path].items():
                # Else it runs at import.
                if part not in (IMPORT, READ) and len(files) < len(self._recording.digests):
                    self._take(files)
            self._stale(path)
            if is_blind(path):
                self._whole(path)
        else:
            self._whole(path)

    def _stale(self, path: str) -> None:
        """Select the test files that changed since the recording and import a module."""
        for file in self._graph.importers.get(path, ()):
            if file in self._recorded - self._unchanged:
                self._take([file])

    def _whole(self, path: str) -> None:
        """Select what runs a module or one that imports it."""
        if not self._once("whole", path):
            return
        self._all(path)
        for other in self._graph.importers.get(path, ()):
            self._all(other)
        self._started(path)
        if not self._known(path):
            for other in self._graph.namers(path):
                self._all(other)

    def _started(self, path: str) -> None:
        """Select what imported a module that a text names.

        A plug-in, which is imported where it is used.
        """
        if self._graph.starters.get(path):
            imported = self._recording.ran.get(path, {}).get(IMPORT, set())
            if len(imported) < len(self._recording.digests):
                self._take(imported)
            for other in self._graph.starters[path]:
                if is_test(other) or not self._known(path):
                    self._all(other)

    def _name(self, path: str, name: str) -> None:
        """Select what ran code that mentions a name of a module."""
        if not self._once("name", path, name):
            return
        self._mentioned(path, name)
        for other, pairs in self._graph.importers.get(path, {}).items():
            for there, here in pairs:
                if there.partition(".")[0] == name:
                    self._name(other, here)
                elif not there:
                    self._mentioned(other, name)
        self._started(path)

    def _mentioned(self, path: str, name: str) -> None:
        if is_test(path) or not self._known(path):
            self._all(path)
            return
        for part_name, part in self._parts(path).items():
            if name in part.mentions and part_name != name:
                if part.kind == "function":
                    self._function(path, part_name)
                elif part.kind == "constant":
                    self._name(path, part_name)
                elif part.kind == "class":
                    self._class(path, part_name)
                else:
                    self._whole(path)
            elif fields := {
                each for each, (_, mentions) in part.fields.items() if name in mentions
            }:
                self._fields(path, part_name, fields)

    def _fields(self, path: str, name: str, fields: Iterable[str]) -> None:
        """Select what ran a method of a class, or code that mentions the class or one of its
        fields.

        What has a field of this class is none of them: it is reached by way of the field.
        """
        if not self._once("fields", path, name):
            return
        for each in fields:
            self._attribute(each)
        for part in self._recording.ran.get(path, ()):
            if part.startswith(f"{name}."):
                self._function(path, part)
        self._users(path, name)
        self._started(path)

    def _users(self, path: str, name: str) -> None:
        """Select what ran a function that mentions a class.

        Classes that are made from it go the same way.
        """
        if is_test(path) or not self._known(path):
            self._all(path)
            return
        for part_name, part in self._parts(path).items():
            if part.kind == "function" and name in part.mentions:
                self._function(path, part_name)
            elif part.kind == "constant" and name in part.mentions:
                self._name(path, part_name)
            elif name in part.bases:
                self._fields(path, part_name, ())
        for other, pairs in self._graph.importers.get(path, {}).items():
            for there, here in pairs:
                if (not there or there == name) and self._once("users", other, here or name):
                    self._users(other, here or name)

    def _class(self, path: str, name: str) -> None:
        """Select what ran a module or one that imports a class of it."""
        if not self._once("class", path, name):
            return
        self._all(path)
        for other, pairs in self._graph.importers.get(path, {}).items():
            for there, here in pairs:
                if not there or there.partition(".")[0] == name.partition(".")[0]:
                    self._class(other, here or name)
        self._started(path)

    def _attribute(self, name: str) -> None:
        """Select what ran code that mentions an attribute anywhere."""
        pattern = re.compile(rf"\.{name}\b")
        for path in self._after.blobs:
            if path.endswith(".py") and pattern.search(self._after.text(path)):
                self._mentioned(path, name)

    # --- other files ---------------------------------------------------------------------------

    def _data(self, path: str, known: Mapping[str, Collection[str]]) -> None:
        if path.startswith(_PAGE):
            self._take(file for file in self._tests if file.startswith(_BROWSER))
            namers = self._graph.namers("vil_bridge/web/static/app.js")
            for other in namers:
                self._all(other)
        elif path.endswith((".c", ".h")) and not path.startswith(("tests/", "examples/")):
            folder = PurePosixPath(path).parent
            for other in self._after.blobs:
                if other.endswith(".py") and PurePosixPath(other).parent == folder:
                    self._whole(other)
        elif READ not in known or path == _READ_BY_PYTEST or not path.endswith(_READ_BY_PYTHON):
            for other in self._graph.namers(path):
                self._all(other)

    def _unrecorded(self, path: str) -> None:
        """Select the test files without a recording that the graph leads to a file."""
        if self._tests != self._recorded:
            self._take(self._graph.dependents(path) - self._recorded)


def differing(before: Tree, after: Tree) -> list[str]:
    """Return the paths of files that differ, are new or are gone."""
    return sorted(
        path
        for path in {*before.blobs, *after.blobs}
        if before.blobs.get(path) != after.blobs.get(path)
    )


def select(before: Tree, after: Tree, graph: Graph, recording: Recording) -> Selection:
    """Return the test files of ``after`` that its differences from ``before`` reach.

    ``graph`` is that of ``after``.
    """
    selector = _Selector(before, after, graph, recording)
    found = Selection(selector.files)
    for path in differing(before, after):
        texts = (tree.text(path) if path in tree.blobs else "" for tree in (before, after))
        if _common(path, *texts):
            found.everything = path
            found.files = {file: path for file in after.blobs if is_test(file)}
            return found
        selector.file(path)
        found.direct |= {path, *graph.importers.get(path, ())} & selector.files.keys()
        if not selector.reached:
            found.unread.append(path)
    return found
