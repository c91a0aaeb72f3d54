"""Statements of the repository about itself are true.

Sizes, pins, links, commands, quality declarations.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import requires
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.common import ROOT
from tests.support.locks import ALL, DEMO, lock_entries
from tests.support.packages import PRODUCT
from vil_bridge.cli.main import app

PACKAGES = [ROOT / path for path in PRODUCT]
# Rivals, measured from an environment of their own; what `make mutants` installs; 140 MB for films;
# gigabytes of torch.
UNLOCKED_EXTRAS = {"bench", "mutants", "sfm", "train"}

DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "adapters" / "README.md",
    ROOT / "renderer" / "README.md",
]

QUALITY_RULES = {
    "transport",
    "codec_limits",
    "malformed_counted",
    "restart",
    "units_converted_at_edge",
    "emulator",
}
QUALITY_RULES |= {"golden_vectors", "docs"}
SOURCE_RULES = {"clock_sync", "tracking_flag"}
# Said only by plug-ins that can use a vendor's library.
OPTIONAL_RULES = {"native_backends"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("lock", [ALL, DEMO])
def test_a_lock_pins_with_hashes_and_names_no_address(lock: str) -> None:
    entries = lock_entries(lock)
    assert len(entries) > 30
    for name, block in entries.items():
        lines = block.splitlines()
        assert re.fullmatch(r"[a-z0-9-]+==[^ ;@]+( ; [^@]+)? \\", lines[0]), lines[0]
        assert lines[1:], f"{name} has no hash"
        for line in lines[1:]:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


def test_the_lock_holds_every_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name: needs
        for name, needs in project["optional-dependencies"].items()
        if name not in UNLOCKED_EXTRAS
    }
    declared = [*project["dependencies"], *(need for needs in extras.values() for need in needs)]
    names = {
        re.split(r"[\[<>=; ]", requirement)[0].lower().replace("_", "-") for requirement in declared
    }
    assert names - lock_entries(ALL).keys() == {project["name"]}, "extras that name others"


def test_the_demonstrations_lock_has_the_pins_and_hashes_of_the_lock() -> None:
    def pin(block: str) -> tuple[str, set[str]]:
        return block.split()[0], set(re.findall("sha256:[0-9a-f]+", block))

    everything = lock_entries(ALL)
    for name, block in lock_entries(DEMO).items():
        assert pin(block) == pin(everything[name])


def needs_of(need: Requirement) -> Iterator[Requirement]:
    """Return the needs of a distribution here, by its own words.

    Those of this project are in pyproject.toml.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if need.name == project["name"]:
        extras = [project["optional-dependencies"][extra] for extra in need.extras]
        needs = [*project["dependencies"], *chain.from_iterable(extras)]
    else:
        needs = requires(need.name) or []
    for other in map(Requirement, needs):
        if other.marker is None or any(
            other.marker.evaluate({"extra": extra}) for extra in {"", *need.extras}
        ):
            other.marker = None
            yield other


def test_the_demonstrations_lock_holds_what_it_needs_and_nothing_else() -> None:
    waiting = {Requirement(name) for name in ("vil-bridge[demo]", "hatchling", "editables")}
    seen: set[Requirement] = set()
    while waiting:
        need = waiting.pop()
        seen.add(need)
        waiting |= {*needs_of(need)} - seen
    needed = {canonicalize_name(need.name) for need in seen} - {"vil-bridge"}
    entries = lock_entries(DEMO)
    assert needed - entries.keys() == set()
    others = [
        Requirement(entries[name].splitlines()[0].rstrip(" \\")) for name in entries.keys() - needed
    ]
    assert [other for other in others if other.marker is None or other.marker.evaluate()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    missing = [
        link for link in links if "://" not in link and not (document.parent / link).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_documents_name_commands_that_exist(document: Path) -> None:
    text = document.read_text()
    # In code only: prose also says "vil-bridge".
    code = "\n".join(
        re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text)
    )
    verbs = {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback
    }
    verbs |= {group.name for group in app.registered_groups if group.name}
    assert set(re.findall(r"\bvil-bridge ([a-z]+)", code)) - verbs == set()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", code)) - targets - {"python"} == set()
    for path in re.findall(r"\b((?:configs|scripts|vil_bridge|docs)/[\w/.-]+\w)", code):
        assert (ROOT / path).exists(), path


def test_setup_comes_again_when_a_source_of_the_kernel_changes() -> None:
    named = re.findall(r"\$\(KERNEL\)/([\w.]+)", (ROOT / "Makefile").read_text())
    assert sorted(named) == sorted(
        path.name for path in (ROOT / "vil_bridge" / "kernel").glob("*.[ch]")
    )


def test_each_promise_names_tests_that_exist() -> None:
    rows = re.findall(
        r"^\| (?!promise|---)(.+?) \|.*\| (.+?) \|$",
        (ROOT / "docs" / "concepts" / "promises.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 40
    untested = [promise for promise, tests in rows if "`" not in tests]
    assert untested == ["24 hours without growth."]
    for promise, tests in rows:
        for name in re.findall(r"`([^`]+)`", tests):
            file, _, function = name.partition("::")
            path = ROOT / "tests" / file
            assert path.is_file(), (promise, name)
            assert not function or f"def {function}(" in path.read_text(), (promise, name)


PLUGINS = sorted(
    config.parent
    for package in PACKAGES[1:]
    for config in package.glob("*/config.py")
    if "SECTION" not in config.read_text()  # of a service
)


@pytest.mark.parametrize("folder", PLUGINS, ids=relative)
def test_every_plugin_declares_its_quality(folder: Path) -> None:
    declared = yaml.safe_load((folder / "quality.yaml").read_text())
    rules = QUALITY_RULES | (SOURCE_RULES if (folder / "source.py").exists() else set())
    assert set(declared) - OPTIONAL_RULES == rules
    for rule, entry in declared.items():
        assert set(entry) == {"status", "reason"}, rule
        assert entry["status"] in {"done", "todo", "exempt"}, rule
        assert len(entry["reason"]) > 10, rule


def test_there_are_plugins_to_judge() -> None:
    assert {"optitrack", "mavlink_imu", "flightgoggles"} <= {folder.name for folder in PLUGINS}


def test_the_architecture_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text()
    drawn = "\n".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))
    paths = re.findall(r"\b(?:vil_bridge|adapters|renderer|simulation)/[\w/.]+\w", drawn)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_architecture_has_every_room() -> None:
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text()
    listed = set(re.findall(r"^\| \d+ \| `(\w+)` \|", page, re.MULTILINE))
    rooms = {path.parent.name for path in (ROOT / "vil_bridge").glob("*/__init__.py")}
    assert rooms == listed


def test_the_pictures_are_small() -> None:
    pictures = [path for path in (ROOT / "docs" / "figures").rglob("*") if path.is_file()]
    assert len(pictures) > 10
    large = {
        relative(path): path.stat().st_size for path in pictures if path.stat().st_size > 300_000
    }
    assert large.keys() <= {"docs/figures/demo.webp"}
    assert large["docs/figures/demo.webp"] < 2_000_000


def test_test_modules_outside_packages_have_names_of_their_own() -> None:
    names = Counter(
        path.name
        for path in (ROOT / "tests").rglob("test_*.py")
        if not (path.parent / "__init__.py").exists()
    )
    assert len(names) > 500
    assert [name for name, count in names.items() if count > 1] == []
