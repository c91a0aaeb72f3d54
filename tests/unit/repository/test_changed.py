"""`make test-changed` selects the test files that a change reaches.

Small trees and recordings by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from tests.changed.__main__ import nearest, seconds_of, wall_s
from tests.changed.graph import Graph, facts
from tests.changed.marks import functions, is_blind
from tests.changed.parts import changed, parts
from tests.changed.recording import Recording
from tests.changed.select import Selection, select

PRODUCT = {
    "vil_bridge/__init__.py": "",
    "vil_bridge/__main__.py": "from vil_bridge.cli import main\n",
    "vil_bridge/cli.py": "def main():\n    from vil_bridge import flight\n    flight.fly()\n",
    "vil_bridge/flight.py": (
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "from vil_bridge.numbers import G, Limits\n"
        "if TYPE_CHECKING:\n    from vil_bridge.shapes import Shape\n"
        "def fly():\n    return G\n"
        "def land(shape: Shape):\n    return shape.height\n"
        "def hover():\n    Limits()\n    return 0\n"
    ),
    "vil_bridge/numbers.py": (
        "BASE = 9\nG = BASE + 0.81\nH = 2\nclass Limits:\n    low: int = 1\n    def "
        "low_m(self):\n        return 3\n"
    ),
    "vil_bridge/shapes.py": "class Shape:\n    height: int = 1\n    width: int = 2\n",
    "vil_bridge/registry.py": "TABLE = {'cone': 'vil_bridge.cone:Cone'}\ndef resolve():\n    "
    "return TABLE\n",
    "vil_bridge/cone.py": "class Cone:\n    steep = 1\n",
}
TESTS = {
    "tests/conftest.py": "",
    "tests/support/programs.py": "COMMAND = ('python', '-m', 'vil_bridge')\ndef start():\n    "
    "return COMMAND\n",
    "tests/unit/test_fly.py": "from vil_bridge.flight import fly\n",
    "tests/unit/test_hover.py": "from vil_bridge.flight import hover\n",
    "tests/unit/test_land.py": "from vil_bridge.flight import land\nfrom vil_bridge.shapes import "
    "Shape\n",
    "tests/unit/test_cone.py": "from vil_bridge.registry import resolve\n",
    "tests/unit/test_pages.py": "from pathlib import Path\nPAGES = list((Path() / "
    "'docs').glob('*.md'))\n",
    "tests/e2e/test_program.py": "from tests.support.programs import start\n",
}
TREE = {
    **PRODUCT,
    **TESTS,
    "docs/index.md": "Text.\n",
    "docs/other.md": "Text.\n",
    "LICENSE": "Text.\n",
}
RAN = {
    "test_fly": {("numbers", "-"), ("flight", "-"), ("flight", "fly")},
    "test_hover": {("numbers", "-"), ("flight", "-"), ("flight", "hover")},
    "test_land": {("numbers", "-"), ("flight", "-"), ("flight", "land"), ("shapes", "-")},
    "test_cone": {("registry", "-"), ("registry", "resolve"), ("cone", "-")},
}


class Hand:
    """A tree from a table."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self.blobs = dict(files)

    def text(self, path: str) -> str:
        return self._files[path]


def recording() -> Recording:
    found = Recording()
    whole = [
        (path, name)
        for path, text in PRODUCT.items()
        for name, part in parts(text).items()
        if part.kind == "function"
    ]
    found.hold(
        [*whole, *((path, "-") for path in PRODUCT), ("docs/index.md", "="), ("docs/other.md", "=")]
    )
    for name, ran in RAN.items():
        file = f"tests/unit/{name}.py"
        found.note(
            file, TREE[file], 1.0, [(f"vil_bridge/{module}.py", part) for module, part in ran]
        )
    pages = [("docs/index.md", "="), ("docs/other.md", "="), ("docs", "=")]
    found.note("tests/unit/test_pages.py", TREE["tests/unit/test_pages.py"], 1.0, pages)
    found.note(
        "tests/e2e/test_program.py",
        TREE["tests/e2e/test_program.py"],
        5.0,
        [
            *((f"vil_bridge/{module}.py", "-") for module in ("cli", "flight", "numbers")),
            *(
                ("vil_bridge/cli.py", "main"),
                ("vil_bridge/flight.py", "fly"),
                ("tests/support/programs.py", "start"),
            ),
        ],
    )
    return found


def selected(
    changes: Mapping[str, str | None],
    known: Recording | None = None,
    tree: Mapping[str, str] = TREE,
) -> Selection:
    after = {path: text for path, text in {**tree, **changes}.items() if text is not None}
    graph = Graph({path: facts(path, text) for path, text in after.items()}, after)
    return select(Hand(tree), Hand(after), graph, recording() if known is None else known)


def names(found: Selection) -> set[str]:
    return {file.rpartition("/")[2].removesuffix(".py") for file in found.files}


def replaced(path: str, old: str, new: str) -> dict[str, str]:
    assert old in TREE[path]
    return {path: TREE[path].replace(old, new)}


# --- with a recording -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("flight", "return G", "return -G", {"test_fly", "test_program"}),
        ("flight", "return 0", "return 1", {"test_hover"}),
        ("flight", "return 0", "'''Hover.'''\n    return 0  # no height", set()),
        ("flight", "def hover", "def unused():\n    return 0\ndef hover", set()),
        ("numbers", "G = BASE", "G = 2 * BASE", {"test_fly", "test_program"}),
        ("numbers", "BASE = 9", "BASE = 8", {"test_fly", "test_program"}),
        ("numbers", "H = 2", "H = 3", set()),
        ("numbers", "low: int = 1", "low: int = 2", {"test_hover"}),
        (
            "numbers",
            "class Limits:",
            "class Limits(int):",
            {"test_fly", "test_hover", "test_land", "test_program"},
        ),
        ("numbers", "H = 2", "print()", {"test_fly", "test_hover", "test_land", "test_program"}),
        ("numbers", "return 3", "return 4", set()),
        ("shapes", "height: int = 1", "height: int = 2", {"test_land"}),
        ("cone", "steep = 1", "steep = 2", {"test_cone"}),
        ("registry", "'cone'", "'tip'", {"test_cone"}),
    ],
)
def test_a_change_of_a_part_selects_what_ran_it(
    path: str, old: str, new: str, expected: set[str]
) -> None:
    assert names(selected(replaced(f"vil_bridge/{path}.py", old, new))) == expected


def test_a_changed_attribute_selects_what_ran_code_that_reads_it() -> None:
    tree = {
        **TREE,
        "vil_bridge/flight.py": TREE["vil_bridge/flight.py"].replace(
            "    from vil_bridge.shapes import Shape", "    pass"
        ),
    }
    changes = replaced("vil_bridge/shapes.py", "height: int = 1", "height: int = 2")
    assert names(selected(changes, tree=tree)) == {"test_land"}


def test_a_changed_test_and_a_new_one_are_selected() -> None:
    found = selected(
        {"tests/unit/test_hover.py": "import vil_bridge.flight\n", "tests/unit/test_new.py": ""}
    )
    assert names(found) == {"test_hover", "test_new"}
    assert names(selected({"tests/unit/test_hover.py": None})) == set()


def test_an_override_is_a_change_of_its_class() -> None:
    tree = {
        **TREE,
        "vil_bridge/cone.py": "from vil_bridge.numbers import Limits\nclass Cone(Limits):\n    "
        "steep = 1\n",
    }
    more = {
        "vil_bridge/cone.py": tree["vil_bridge/cone.py"]
        + "    def low_m(self):\n        return 4\n"
    }
    other = {
        "vil_bridge/cone.py": tree["vil_bridge/cone.py"]
        + "    def _else(self):\n        return 4\n"
    }
    assert names(selected(more, tree=tree)) == {"test_cone"}
    assert names(selected(other, tree=tree)) == set()


def test_a_function_newer_than_the_recording_selects_what_ran_its_module() -> None:
    tree = {
        **TREE,
        "vil_bridge/flight.py": TREE["vil_bridge/flight.py"] + "def late():\n    return 1\n",
    }
    found = selected(
        {"vil_bridge/flight.py": tree["vil_bridge/flight.py"].replace("return 1", "return 2")},
        tree=tree,
    )
    assert names(found) == {"test_fly", "test_hover", "test_land", "test_program"}


def test_a_module_newer_than_the_recording_selects_what_ran_its_importers() -> None:
    more = "from vil_bridge.late import x\n"
    tree = {
        **TREE,
        "vil_bridge/late.py": "def x():\n    return 1\n",
        "vil_bridge/registry.py": more + TREE["vil_bridge/registry.py"],
    }
    assert names(selected({"vil_bridge/late.py": "def x():\n    return 2\n"}, tree=tree)) == {
        "test_cone"
    }


def test_a_test_newer_than_its_recording_is_also_selected_by_its_imports() -> None:
    tree = {**TREE, "tests/unit/test_cone.py": "from vil_bridge.flight import hover\n"}
    assert names(selected(replaced("vil_bridge/flight.py", "return 0", "return 1"), tree=tree)) == {
        "test_hover",
        "test_cone",
    }


def test_pages_select_what_reads_them() -> None:
    assert names(selected({"docs/index.md": "Other text.\n"})) == {"test_pages"}
    assert names(selected({"docs/new.md": "Text.\n"})) == {"test_pages"}
    found = selected({"LICENSE": "Other text.\n"})
    assert (names(found), found.unread) == (set(), ["LICENSE"])
    both = selected({"docs/index.md": "Other text.\n", "docs/other.md": "Other text.\n"})
    assert both.unread == [], "the second selects what the first has selected"


@pytest.mark.parametrize(
    ("path", "before", "after", "everything"),
    [
        ("tests/conftest.py", "", "x = 1\n", True),
        ("Makefile", "PYTEST = a\nx:\n\tb\n", "PYTEST = c\nx:\n\tb\n", True),
        ("Makefile", "PYTEST = a\nx:\n\tb\n", "PYTEST = a\nx:\n\tc\n", False),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\ntimeout = 1\n",
            "[tool.pytest.ini_options]\ntimeout = 2\n",
            True,
        ),
        (
            "pyproject.toml",
            "[tool.ruff]\nline-length = 1\n",
            "[tool.ruff]\nline-length = 2\n",
            False,
        ),
        ("requirements.lock", "a==1\n", "a==2\n", True),
        ("requirements.lock", "a==1\n", "a==1\nb==1\n", False),
    ],
)
def test_what_every_test_runs_with_selects_everything(
    path: str, before: str, after: str, everything: bool
) -> None:
    found = selected({path: after}, tree={**TREE, path: before})
    assert (found.everything == path, len(found.files) == 6) == (everything, everything)


# --- without --------------------------------------------------------------------------------------


def test_without_a_recording_the_graph_decides() -> None:
    """Lazy imports and programs lead on, imports for type checkers do not."""
    nothing = Recording()
    changed_flight = replaced("vil_bridge/flight.py", "return 0", "return 1")
    assert names(selected(changed_flight, nothing)) == {
        "test_fly",
        "test_hover",
        "test_land",
        "test_program",
    }
    assert names(selected(replaced("vil_bridge/shapes.py", "2", "3"), nothing)) == {"test_land"}
    assert names(selected(replaced("vil_bridge/cone.py", "1", "2"), nothing)) == {"test_cone"}
    assert names(selected({"docs/index.md": "Other text.\n"}, nothing)) == {"test_pages"}


# --- parts ----------------------------------------------------------------------------------------


def test_facts_of_a_file() -> None:
    text = (
        '"""About vil_bridge.nothing."""\n'
        "import vil_bridge.a\nfrom vil_bridge.b import c as d\nfrom os import path\n"
        "WORDS = ('-m', 'vil_bridge', 'tests.soak.hour', ROOT / 'docs' / 'index.md')\n"
    )
    found = facts("tests/x.py", text)
    assert found.imports == (("vil_bridge.a", ""), ("vil_bridge.b.c", "d"))
    assert found.started == ("tests.soak.hour", "vil_bridge.__main__")
    assert found.words == ("docs/index.md",)
    inside = facts("vil_bridge/p/__init__.py", "from .q import r\nfrom .. import s\n")
    assert inside.imports == (("vil_bridge.p.q.r", "r"), ("vil_bridge.s", "s"))


def test_parts_of_a_module() -> None:
    text = (
        "import a\nX, Y = 1, 2\nif X:\n    def f():\n        def g(): ...\n"
        "class C(B):\n    z = 1\n    def m(self): ...\n@njit\ndef k(): ...\n"
    )
    found = parts(text)
    kinds = {name: part.kind for name, part in found.items()}
    constants = {"X": "constant", "Y": "constant", "k": "constant"}
    assert kinds == {"f": "function", "C.m": "function", "C": "class", "-": "rest", **constants}
    assert changed(found, parts(text.replace("def g(): ...", "def g(): return 1"))) == {"f"}
    assert changed(found, parts("import b\n" + text)) == set()


def test_marked_are_functions_outside_functions() -> None:
    tree = ast.parse(
        "def f():\n    def g(): ...\ntry:\n    def h(): ...\nexcept E:\n    def i(): ...\n"
        "class C:\n    class D:\n        def m(self): ...\n"
    )
    assert [name for name, _ in functions(tree.body)] == ["f", "h", "i", "C.D.m"]
    assert is_blind("simulation/vil_simulation/vehicles/car_kernel.py")
    assert is_blind("vil_bridge/client.py")
    assert not is_blind("vil_bridge/kernel/library.py")


# --- stored ---------------------------------------------------------------------------------------


def test_a_recording_is_stored_and_read_again() -> None:
    found = recording()
    again = Recording.parse(found.text())
    assert again.text() == found.text()
    assert again.ran["vil_bridge/flight.py"]["hover"] == {"tests/unit/test_hover.py"}
    assert again.ran["vil_bridge/numbers.py"]["Limits.low_m"] == set(), "known, and not run"
    assert again.seconds == found.seconds


def test_sets_of_every_size_are_stored() -> None:
    found = Recording()
    for number in range(700):
        parts = [
            ("m.py", part)
            for part, every in (("a", 1), ("b", 2), ("c", 100), ("d", 699))
            if number % every == 0
        ]
        found.note(f"tests/test_{number}.py", "", 1.0, parts)
    stored = found.text()
    assert Recording.parse(stored).ran == found.ran
    assert len(stored.partition("m.py")[2]) < 500


def test_test_files_keep_their_ids() -> None:
    before = Recording.parse(recording().text())
    first = {
        line.split()[3]: line.split()[0]
        for line in before.text().splitlines()
        if line.count(" ") == 3
    }
    before.note("tests/a_test.py", "", 1.0, [])
    before.forget("tests/unit/test_fly.py")
    before.note("tests/b_test.py", "", 1.0, [])
    second = {
        line.split()[3]: line.split()[0]
        for line in before.text().splitlines()
        if line.count(" ") == 3
    }
    assert all(second[file] == key for file, key in first.items() if file in second)
    assert len(set(second.values())) == len(second)


# --- time -----------------------------------------------------------------------------------------


def test_the_longest_run_first_and_the_estimate_is_that_of_two_workers() -> None:
    seconds = seconds_of(["a", "b", "c", "d"], {"a": 1.0, "b": 9.0, "c": 5.0})
    assert list(seconds.items()) == [("b", 9.0), ("c", 5.0), ("d", 5.0), ("a", 1.0)]
    assert wall_s(seconds.values()) == 8.0 + 10.0
    assert wall_s([]) == 0.0


def test_the_nearest_run_when_not_all_fit() -> None:
    known = recording()
    found = selected(replaced("vil_bridge/flight.py", "return G", "return -G"), known)
    assert names(found) == {"test_fly", "test_program"}
    assert nearest(found, known, (), 90.0) == found.files.keys()
    assert nearest(found, known, (), 9.0) == {"tests/unit/test_fly.py"}, (
        "it imports the changed module"
    )
    assert nearest(found, known, ["tests/e2e/test_program.py"], 8.0) == {
        "tests/e2e/test_program.py"
    }, "it has changed"
    everything = selected({"tests/conftest.py": "x = 1\n"}, known)
    assert nearest(everything, known, (), 9.0) == everything.files.keys()


def test_of_those_equally_near_the_ones_with_few_modules_run() -> None:
    known = recording()
    known.note(
        "tests/e2e/test_program.py",
        "",
        1.0,
        [("vil_bridge/cli.py", "main"), ("vil_bridge/flight.py", "fly")],
    )
    narrow = {"tests/unit/test_fly.py", "tests/unit/test_hover.py"}
    found = Selection(dict.fromkeys(["tests/e2e/test_program.py", *narrow], "x"))
    assert nearest(found, known, (), 9.0) == narrow, "two workers have a second each"
