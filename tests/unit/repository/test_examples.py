"""The pages' examples are true.

Each is run, loaded or parsed, as tests/support/examples.py describes.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.common import ROOT, needs_gl
from tests.support.examples import (
    DOCUMENTS,
    TOUR,
    Example,
    examples,
    load_yaml,
    parse,
    run_commands,
)
from tests.support.programs import run

EXAMPLES = [example for page in DOCUMENTS if page != TOUR for example in examples(page)]
CODE = {"sh", "python", "yaml"}
ANYTHING = {"c", "json", "bibtex", "text"}
WITHOUT_EXAMPLE = re.compile(r"docs/decisions/|renderer/")


def of(kind: str, *checks: str) -> list[Example]:
    return [
        example
        for example in EXAMPLES
        if example.kind == kind and (example.check in checks or not checks)
    ]


def pages_of(cases: list[Example]) -> list[str]:
    return list(dict.fromkeys(example.page for example in cases))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("configs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LP_NUM_THREADS", "1")


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page begin as a new user's shell does: an empty home, no variable of the bridge."""
    for name in [name for name in os.environ if name.startswith("VIL_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


@pytest.mark.process
@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("page", pages_of(of("sh", "run")))
def test_the_pages_commands_run(page: str) -> None:
    for example in of("sh", "run"):
        if example.page == page:
            run_commands(example)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("page", pages_of(of("python", "run")))
def test_the_pages_code_runs(page: str) -> None:
    namespace: dict[str, object] = {"__name__": Path(page).stem}
    for example in of("python", "run"):
        if example.page == page:
            lines = "\n" * example.line  # so that a traceback names the line of the page
            if "EmbeddedRenderer" in example.text:
                needs_gl()
            exec(compile(lines + example.text, page, "exec"), namespace)


@pytest.mark.parametrize("example", [*of("sh", "parse"), *of("python", "parse")], ids=str)
def test_what_is_not_run_parses(example: Example, tmp_path: Path) -> None:
    parse(example, tmp_path)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    "example", [e for e in of("yaml") if not e.check.startswith("tests/")], ids=str
)
def test_the_pages_files_load(
    example: Example, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load_yaml(example, tmp_path)
    assert caplog.messages == []


@pytest.mark.parametrize("example", of("json"), ids=str)
def test_json_is_json(example: Example) -> None:
    json.loads(example.text)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.check.startswith("tests/")], ids=str)
def test_what_another_test_runs_is_run(example: Example) -> None:
    assert re.search(r"def test_", (ROOT / example.check).read_text())
    assert Path(example.page).name in (ROOT / example.check).read_text()


def test_every_example_says_what_it_is() -> None:
    known = {"run", "parse", "scene", "course", "dataset", "markers"}
    for example in EXAMPLES:
        assert example.kind in CODE | ANYTHING | {""}, example
        assert example.check in known or example.check.startswith("tests/"), example
        if example.kind in ("", "text"):
            assert not re.search(r"^(?:vil-bridge|make|python|from|import) ", example.text, re.M), (
                example
            )


@pytest.mark.parametrize("page", [page for page in DOCUMENTS if not WITHOUT_EXAMPLE.match(page)])
def test_a_page_begins_with_a_sentence_and_an_example(page: str) -> None:
    beginning = (ROOT / page).read_text(encoding="utf-8").partition("\n## ")[0]
    title, sentence, *rest = beginning.split("\n\n")
    assert title.startswith("# ")
    assert (
        page == "README.md"
        or re.fullmatch(r"[^|`<!\[][^|]*[.:]", sentence.strip(), re.S)
        or sentence[0] == "`"
    )
    if page != "README.md":
        assert len(re.findall(r"\.(?:\s|$)", sentence)) == 1, f"one sentence: {sentence}"
        assert re.search(r"^```(?:sh|python|yaml|text)$", "\n".join(rest), re.M), (
            f"{page} begins without an example"
        )


@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_tour_can_be_walked(tmp_path: Path) -> None:
    # The walk runs this too: where there is something to do, it would install its own folder into
    # this environment.
    assert run("make", "setup", limit_s=600).returncode == 0
    for path in ROOT.iterdir():  # the walk writes files: into a folder that looks like the checkout
        if path.name not in ("configs", "examples", "out", ".git"):
            (tmp_path / path.name).symlink_to(path)
    walked = run(
        sys.executable,
        ROOT / "scripts" / "tour.py",
        ROOT / TOUR,
        "--check",
        limit_s=880,
        cwd=tmp_path,
    )
    assert walked.returncode == 0, walked.stderr
