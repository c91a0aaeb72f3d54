"""The mutation score counts what it should: samples, exclusions, reach and the report."""

from __future__ import annotations

import fnmatch
import math
import re
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.c_source import KERNEL, C, callers, library
from tests.mutants.changed import added_lines, changed_lines, near_tests
from tests.mutants.copies import Copy
from tests.mutants.draw import draw, language_of, read_equivalent
from tests.mutants.language import Language, Mutant
from tests.mutants.plain import places, same, span
from tests.mutants.python_source import PYTHON
from tests.mutants.reach import Imports, Reach, Reaching
from tests.mutants.report import score, survivors, table
from tests.mutants.rooms import ROOMS, files_of
from tests.mutants.trial import parts, try_mutant
from tests.support.common import ROOT
from tests.support.packages import PRODUCT

SURVIVORS: Final = ROOT / "tests" / "mutants" / "survivors.md"
MODULE = '''"""Text."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import B

__all__ = ["C"]

logger = logging.getLogger(__name__)
LIMIT: int | None = 3


@dataclass(frozen=True, slots=True)
class C:
    """A value."""

    x: int | None = 1


class Model(Base, gc=False):
    y: Annotated[int, at_least(1)]


def f(
    a: int | None = 2,
) -> int | None:
    if a > LIMIT:
        logger.info("more by %d", a - LIMIT)
    return (
        a
        + 1
    )


def g(a: int, *, b: int = 1, c: int) -> int:
    return a + b + c


@router.get("/")
def route(n: Annotated[int, at_least(1)]) -> int:
    return n
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT: int | None", "LIMIT: int & None"),
        ("x: int | None", "x: int + None"),
        ("a: int | None", "a: int ** None"),
        ("-> int | None", "-> int / None"),
        ("if TYPE_CHECKING", "if not TYPE_CHECKING"),
        ('by %d", a - LIMIT', 'by %d", a + LIMIT'),
        ('"""A value."""', '"""Another."""'),
        ('["C"]', '["D"]'),
        ("slots=True", "slots=False"),
        ("gc=False", "gc=True"),
        ("a: int, *, b", "a: int, /, b"),
        ("a > LIMIT", "a >> > LIMIT"),
    ],
)
def test_a_change_without_effect_is_none(old: str, new: str) -> None:
    assert MODULE.count(old) == 1
    assert same(MODULE, MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("None = 3", "None = 4"),
        ("None = 1", "None = 2"),
        ("None = 2", "None = 3"),
        ("a > LIMIT", "a >= LIMIT"),
        ("        + 1", "        - 1"),
        ("b: int = 1", "b: int = 2"),
        ("y: Annotated[int, at_least(1)]", "y: Annotated[int, at_least(2)]"),
        ("n: Annotated[int, at_least(1)]", "n: Annotated[int, at_least(2)]"),
        ('@router.get("/")\n', ""),
        ("frozen=True", "frozen=False"),
    ],
)
def test_a_change_with_effect_is_one(old: str, new: str) -> None:
    assert MODULE.count(old) == 1
    assert not same(MODULE, MODULE.replace(old, new))


def line_of(text: str) -> int:
    return MODULE[: MODULE.index(text)].count("\n") + 1


def test_a_line_is_known_by_what_encloses_it_and_runs_with_its_statement() -> None:
    assert places(MODULE)[line_of("x: int")] == "C"
    assert places(MODULE)[line_of("@dataclass")] == "C"
    assert line_of("LIMIT:") not in places(MODULE)
    first = line_of("return (")
    assert span(MODULE, line_of("+ 1")) == (range(first, first + 4), False)
    assert span(MODULE, line_of("if a >")) == (
        range(line_of("if a >"), line_of("if a >") + 1),
        False,
    )
    for at_import in ("LIMIT:", "x: int", "a: int", "@router"):
        assert span(MODULE, line_of(at_import))[1], at_import


def find(file: str, source: str) -> dict[int, list[Mutant]]:
    """One mutant for each `+`, and one that changes nothing."""
    return {
        number: [
            Mutant(file, number, "", line.strip(), operator, number, 0)
            for operator in ("Sub", "Nothing")
        ]
        for number, line in enumerate(source.splitlines(), 1)
        if "+" in line
    }


def change(source: str, mutant: Mutant) -> str:
    lines = source.splitlines()
    if mutant.operator == "Sub":
        lines[mutant.line - 1] = lines[mutant.line - 1].replace("+", "-")
    return "\n".join(lines)


SOURCES = {f"room/{name}.py": "\n".join(f"{name}{i} = {i} + 1" for i in range(20)) for name in "ab"}


def language(_file: str) -> Language:
    return PYTHON._replace(mutants_of=find, mutated=change)


def drawn(sources: dict[str, str], seed: int, each: int = 8) -> list[Mutant]:
    return draw(sources, seed, each, language=language).mutants


def test_the_sample_depends_on_the_seed_and_on_nothing_that_stands_next_to_it() -> None:
    first = drawn(SOURCES, 1)
    assert len(first) == 8
    assert first == drawn(dict(reversed(SOURCES.items())), 1)
    assert first != drawn(SOURCES, 2)
    assert {mutant.operator for mutant in first} == {"Sub"}, (
        "a mutant that changes nothing is not drawn"
    )
    moved = {
        file.replace("room", "house"): "import x\n\n" + source for file, source in SOURCES.items()
    }
    assert [(mutant.text, mutant.operator) for mutant in drawn(moved, 1)] == [
        (mutant.text, mutant.operator) for mutant in first
    ]
    assert len(drawn(SOURCES, 1, each=100)) == 40


def test_listed_mutants_leave_the_sample_and_are_counted_apart() -> None:
    first = drawn(SOURCES, 1)
    sample = draw(SOURCES, 1, 8, [first[2].key], language=language)
    assert sample.equivalent == [first[2]]
    assert len(sample.mutants) == 8
    assert first[2] not in sample.mutants


def test_each_listed_mutant_names_a_line_that_exists() -> None:
    for (file, place, text, _, _), reason in read_equivalent().items():
        source = (ROOT / file).read_text()
        lines = source.splitlines()
        around = language_of(file).places(source)
        numbers = [number for number, line in enumerate(lines, 1) if line.strip() == text]
        assert place in {around.get(number, "") for number in numbers}, (file, text)
        assert len(reason) > 10, (file, text)


def product_files() -> list[str]:
    found = [
        path
        for folder in PRODUCT
        for path in (ROOT / folder).glob("**/*.py")
        if "node_modules" not in path.parts
    ]
    return sorted(str(path.relative_to(ROOT)) for path in [*found, *(ROOT / KERNEL).glob("*.[ch]")])


def test_every_file_of_the_product_is_in_one_room_and_every_pattern_has_files() -> None:
    product = product_files()
    assert sorted(path for room in ROOMS for path in files_of(room, product)) == product
    for patterns in ROOMS.values():
        for pattern in patterns:
            assert fnmatch.filter(product, pattern), pattern


def test_only_the_given_lines_are_drawn() -> None:
    only = {"room/a.py": {3, 5}, "room/b.py": {1}}
    sample = draw(SOURCES, 1, 8, only=only, language=language)
    assert {(mutant.file, mutant.line) for mutant in sample.mutants} == {
        ("room/a.py", 3),
        ("room/a.py", 5),
        ("room/b.py", 1),
    }


# --- C -------------------------------------------------------------------------------------------

HEADER = """/* a < b */
int vil_less(int a, int b);
"""
SOURCE = """#include "less.h"
#define LIMIT (3 + 4)

typedef struct {
    int count, size; // 7 - 1
} Pair;

static const char *name = "a < b && 1";

/* Return 1 when a is less. */
int vil_less(int a, int b)
{
    int both = 0x10;
    Pair *pair = 0;
    if (!a && b >= 2)
        both += a - 'c';
    for (int i = 0; i < b; i++) {
        pair->count = i;
        vil_note(pair, 1.5F);
    }
    return both;
}
"""


def c_mutants(text: str) -> set[tuple[str, str]]:
    """Operators on the only line with a text, with what each makes of it."""
    number = next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)
    mutants = C.mutants_of("less.c", SOURCE).get(number, [])
    changed = [C.mutated(SOURCE, mutant).splitlines()[number - 1].strip() for mutant in mutants]
    assert all(mutant.text == SOURCE.splitlines()[number - 1].strip() for mutant in mutants)
    return {(mutant.operator, line) for mutant, line in zip(mutants, changed, strict=True)}


def test_mutants_of_c_change_comparisons_signs_logic_constants_and_statements() -> None:
    assert c_mutants("if (!a") == {
        ("! to nothing", "if (a && b >= 2)"),
        ("&& to ||", "if (!a || b >= 2)"),
        (">= to >", "if (!a && b > 2)"),
        (">= to <", "if (!a && b < 2)"),
        ("Number +1", "if (!a && b >= 3)"),
        ("Number -1", "if (!a && b >= 1)"),
    }
    assert c_mutants("both += a") == {
        ("+= to -=", "both -= a - 'c';"),
        ("- to +", "both += a + 'c';"),
        ("Statement", ";"),
    }
    assert c_mutants("for (int i") == {
        ("Number +1", "for (int i = 1; i < b; i++) {"),
        ("Number -1", "for (int i = (-1); i < b; i++) {"),
        ("< to <=", "for (int i = 0; i <= b; i++) {"),
        ("< to >=", "for (int i = 0; i >= b; i++) {"),
        ("++ to --", "for (int i = 0; i < b; i--) {"),
    }
    assert c_mutants("vil_note") == {
        ("Number +1", "vil_note(pair, 2.5F);"),
        ("Number -1", "vil_note(pair, 0.5F);"),
        ("Statement", ";"),
    }
    assert c_mutants("0x10") == {("Number +1", "int both = 17;"), ("Number -1", "int both = 15;")}
    assert {operator for operator, _ in c_mutants("pair->count")} == {"Statement"}


@pytest.mark.parametrize(
    "text", ["#define", "#include", "count, size", "Pair;", "char *name", "/* Return", "return"]
)
def test_comments_texts_the_preprocessor_declarations_and_jumps_have_no_mutants(text: str) -> None:
    assert c_mutants(text) == set()


def test_a_line_of_c_is_known_by_its_function() -> None:
    around = C.places(SOURCE)
    inside = [
        number
        for number, line in enumerate(SOURCE.splitlines(), 1)
        if line.startswith("    ") and "size" not in line
    ]
    assert {around[number] for number in inside} == {"vil_less"}
    assert set(around) - set(inside) == {11, 12, 22}, "its head, its braces and nothing before"


def test_the_sample_of_c_does_not_depend_on_what_stands_next_to_it() -> None:
    def drawn_lines(source: str) -> list[tuple[str, str]]:
        sample = draw(
            {"less.c": source}, 1, 4, language=lambda _: C._replace(same=lambda *_: False)
        )
        return [(mutant.text, mutant.operator) for mutant in sample.mutants]

    assert len(drawn_lines(SOURCE)) == 4
    assert drawn_lines(SOURCE) == drawn_lines("int vil_more(void)\n{\n    return 1;\n}\n" + SOURCE)


@pytest.mark.process
def test_a_change_of_the_kernel_counts_where_it_compiles_to_another_library() -> None:
    file = f"{KERNEL}/rays.c"
    source = (ROOT / file).read_text()
    assert not C.same(file, source, source.replace("at < 0 ||", "at <= 0 ||"))
    assert C.same(file, source, source.replace("int64_t place = 0;", "int64_t place = 1 - 1;"))
    assert C.same(file, source, source.replace("int64_t place = 0;", ""))
    assert library(ROOT, file, source) == library(ROOT)


def test_the_callers_of_a_file_of_c_are_the_modules_that_name_what_uses_it() -> None:
    texts = {
        "k/less.h": HEADER,
        "k/less.c": SOURCE,
        "k/sort.c": "int vil_sort(int a)\n{\n    return vil_less(a, 1);\n}\n",
        "k/far.c": "int vil_far(void)\n{\n    return 1;\n}\n",
        "p/sort.py": 'sort = function("vil_sort")',
        "p/less.py": "less = kernel.vil_less",
        "p/far.py": 'far = function("vil_far")',
    }
    assert callers("k/less.c", texts) == ["p/sort.py", "p/less.py"]
    assert callers("k/less.h", texts) == ["p/sort.py", "p/less.py"]
    assert callers("k/sort.c", texts) == ["p/sort.py"]
    assert callers("k/far.c", texts) == ["p/far.py"]


def test_the_kernel_is_called_from_python_in_every_file() -> None:
    texts = {path: (ROOT / path).read_text() for path in product_files()}
    for file in files_of("kernel", list(texts)):
        assert callers(file, texts), file


# --- changed lines -------------------------------------------------------------------------------

DIFF = """diff --git a/p/c.py b/p/c.py
index 1..2 100644
--- a/p/c.py
+++ b/p/c.py
@@ -3 +3,2 @@ def f():
-a = 1
+a = 2
+++ b/none.py
@@ -9,2 +10,0 @@ def g():
-c = 1
-d = 1
@@ -20,0 +20 @@ def h():
+e = 1
\\ No newline at end of file
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-x = 1
diff --git a/new.c b/new.c
new file mode 100644
--- /dev/null
+++ b/new.c
@@ -0,0 +1,3 @@
+int a;
+int b;
+int c;
"""


def test_changed_lines_are_those_that_a_diff_adds() -> None:
    found = {file: lines for file, lines in added_lines(DIFF).items() if lines}
    assert found == {"p/c.py": {3, 4, 20}, "new.c": {1, 2, 3}}


def git(root: Path, *arguments: str) -> None:
    named = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *named, *arguments], cwd=root, check=True, capture_output=True)


def committed(root: Path, files: dict[str, str]) -> None:
    """Make a repository of files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--message=first")


@pytest.mark.process
def test_lines_of_the_product_count_since_the_branch_left_its_base(tmp_path: Path) -> None:
    core = "vil_bridge/core/one.py"
    kernel = f"{KERNEL}/less.c"
    committed(tmp_path, {core: "a = 1\nb = 2\n", kernel: SOURCE, "tests/test_one.py": "a = 1\n"})
    git(tmp_path, "switch", "--create=mine")
    (tmp_path / core).write_text("a = 1\nb = 3\n")
    (tmp_path / "tests/test_one.py").write_text("a = 2\n")
    git(tmp_path, "commit", "--all", "--message=mine")
    git(tmp_path, "switch", "main")
    (tmp_path / kernel).write_text(SOURCE + "\n")
    git(tmp_path, "commit", "--all", "--message=of another")
    git(tmp_path, "switch", "mine")
    (tmp_path / "vil_bridge/core/new.py").write_text("c = 1\n\nd = 2\n")
    assert changed_lines(tmp_path, "main") == {core: {2}, "vil_bridge/core/new.py": {1, 2, 3}}


def test_the_tests_of_a_changed_file_are_the_recorded_ones_and_those_that_import_it() -> None:
    texts = {
        "p/c.py": MODULE,
        "k/less.c": SOURCE,
        "p/less.py": "less = kernel.vil_less",
        "tests/test_less.py": "from p import far, less",
        "p/user.py": "from p.c import f",
        "tests/test_c.py": "from p.c import f",
        "tests/test_user.py": "from p.user import g",
        "tests/test_far.py": "",
    }
    recorded = {
        "tests/test_far.py": {"tests": {"one": {"lines": {"p/c.py": "1-2"}}}},
        "tests/test_c.py": {"tests": {}},
    }
    near = [near_tests("p/c.py", distance, Imports(texts), recorded) for distance in range(3)]
    assert near == [{"tests/test_far.py"}, {"tests/test_c.py"}, {"tests/test_user.py"}]
    assert near_tests("k/less.c", 1, Imports(texts), recorded) == {"tests/test_less.py"}


# --- trial ---------------------------------------------------------------------------------------

TRIED = """#include <stdlib.h>
#include <unistd.h>

int vil_less(int a, int b)
{
    int untested = 3;
    if (a < 0)
        return untested;
    return a < b;
}
"""
TRIAL = f"""import ctypes

less = ctypes.CDLL("{KERNEL}/libvil_kernel.so").vil_less


def test_less():
    assert [less(1, 2), less(2, 2), less(3, 2)] == [1, 0, 0]
"""


@pytest.mark.process
def test_a_mutant_of_c_is_compiled_into_the_copy_and_judged_in_time(tmp_path: Path) -> None:
    file = f"{KERNEL}/less.c"
    committed(tmp_path / "root", {file: TRIED, "test_less.py": TRIAL})
    copy = Copy(tmp_path / "root", tmp_path / "copy")
    library_of_copy = tmp_path / "copy" / KERNEL / "libvil_kernel.so"
    before = library_of_copy.read_bytes()

    def status(old: str, new: str, until_s: float = math.inf) -> str:
        mutant = Mutant(file, 9, "vil_less", "return a < b;", "", 0, 0)
        tests = [Reaching("test_less.py::test_less", 0.01, 1.0)]
        verdict = try_mutant(copy, mutant, TRIED.replace(old, new), tests, until_s)
        assert library_of_copy.read_bytes() == before
        return verdict.status

    assert status("return a < b;", "return a <= b;") == "killed"
    assert status("return a < b;", "abort();") == "killed", "a crash"
    assert status("untested = 3", "untested = 4") == "survived"
    assert status("return a < b;", "for (;;) pause();", time.monotonic() + 3.0) == "unjudged", (
        "an endless loop, and no time"
    )
    assert status("return a < b;", "return a <= b;", time.monotonic()) == "unjudged"


# --- reach ---------------------------------------------------------------------------------------


def reach() -> Reach:
    def note(seconds: float, lines: dict[str, str], outcome: str = "passed") -> dict[str, object]:
        return {"s": seconds, "outcome": outcome, "lines": lines}

    first = line_of("return (")
    stored = {
        "tests/test_c.py": {
            "tests": {
                "tests/test_c.py::slow": note(2.0, {"p/c.py": f"{first}-{first + 3}"}),
                "tests/test_c.py::other": note(0.1, {}),
                "tests/test_c.py::wrong": note(0.1, {"p/c.py": f"{first}-{first}"}, "failed"),
            }
        },
        "tests/test_far.py": {
            "tests": {"tests/test_far.py::quick": note(0.01, {"p/c.py": f"{first}-{first}"})}
        },
    }
    texts = {"p/c.py": MODULE, "tests/test_c.py": "from p.c import f", "tests/test_far.py": ""}
    return Reach(stored, Imports(texts))


def test_tests_of_a_line_are_those_that_pass_and_reach_its_statement_the_cheapest_first() -> None:
    made = reach()
    names = [test.name for test in made.tests("p/c.py", line_of("+ 1"))]
    assert names == ["tests/test_far.py::quick", "tests/test_c.py::slow"]
    assert made.tests("p/c.py", line_of("logger.info")) == []
    assert made.failing == ["tests/test_c.py::wrong"]


def test_a_line_that_runs_at_import_is_reached_by_what_uses_or_names_the_module() -> None:
    names = [test.name for test in reach().tests("p/c.py", line_of("LIMIT:"))]
    assert set(names) == {
        "tests/test_far.py::quick",
        "tests/test_c.py::slow",
        "tests/test_c.py::other",
    }


def test_parts_grow_and_end_at_the_budget() -> None:
    tests = [Reaching(f"f::{number}", 1.0, 1.0) for number in range(100)]
    assert [len(part) for part in parts(tests)] == [4, 12, 43]
    assert [len(part) for part in parts([Reaching("f::long", 90.0, 1.0), *tests])] == [1]
    assert list(parts([])) == []


def test_the_report_counts_and_names_survivors() -> None:
    def made(status: str) -> dict[str, object]:
        key = ["p/c.py", "f", "a + 1", "Add_Sub", 0]
        return {
            "file": "p/c.py",
            "line": 7,
            "key": key,
            "diff": ["-a + 1", "+a - 1"],
            "status": status,
            "tests": 3,
            "left": 1,
        }

    entries = [
        made(status)
        for status in ("killed", "killed", "killed", "timeout", "survived", "unreached")
    ]
    assert round(score(entries)) == 67
    assert "| room | 6 | 3 | 1 | 1 | 1 | 67 % | 2 |" in table({"room": entries}, {"room": 2})
    named = survivors(entries)
    assert named.count("p/c.py:7 Add_Sub 0 ") == 2
    assert "+a - 1" in named
    assert survivors(entries[:4]) == ""


def test_former_survivors_name_cases_that_exist() -> None:
    named = re.findall(
        r"`((?:unit|property|contract|e2e)/[\w/]+\.py)::(\w+)", SURVIVORS.read_text()
    )
    assert len(named) > 10
    assert [
        (file, case)
        for file, case in named
        if f"def {case}(" not in (ROOT / "tests" / file).read_text()
    ] == []
