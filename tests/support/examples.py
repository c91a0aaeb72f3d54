"""Examples of the pages: the code blocks, and the checks that keep them true.

A page's ``sh`` blocks are run, its ``python`` blocks are executed in order in one namespace, its
``yaml`` blocks are loaded as configuration. A comment before a block names another check:

- ``<!-- check: parse -->``: the commands parse with the real command line, the imports of Python
  resolve, and the files exist. For blocks that run for ever, or need hardware, a network, root or
  minutes.
- ``<!-- check: scene -->``, ``course``, ``dataset``, ``markers``: the YAML is a scene, a race
  course, the description of a data set, or a template.
- ``<!-- check: tests/PATH.py -->``: that test runs it.
- ``<!-- exit: 3 -->``: the commands end with this exit code.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from typer.main import get_command
from typer.testing import CliRunner

from tests.support.common import ROOT
from vil_bridge import registry
from vil_bridge.cli.default_verb import DefaultVerbGroup
from vil_bridge.cli.main import app
from vil_bridge.config.load import load

__all__ = [
    "DOCUMENTS",
    "TOUR",
    "Example",
    "completed",
    "examples",
    "load_yaml",
    "parse",
    "run_commands",
]

DOCUMENTS: Final = (
    "README.md",
    "CONTRIBUTING.md",
    "adapters/README.md",
    "renderer/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
)
TOUR: Final = "docs/start/tour.md"
"""Its blocks have a script of their own: `make tour`."""
_BLOCK: Final = re.compile(
    r"(?P<notes>(?:<!-- [^>]* -->\n)*)^```(?P<kind>\w*)\n(?P<text>.*?)^```", re.M | re.S
)
_NOTE: Final = re.compile(r"<!-- (check|exit): (.*?) -->")
_FILE: Final = re.compile(r"^(?:configs|scripts|examples|vil_bridge|deploy|tests)/[\w/.-]+$")
_INPUT: Final = re.compile(r"[\w/.:-]+\.(?:ya?ml|mcap|pcap|bvh|jsonl?|tokens|key|csv)$")


@dataclass(frozen=True, slots=True)
class Example:
    """A code block of a page."""

    page: str
    line: int
    kind: str
    text: str
    check: str
    exit_code: int

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples(page: str) -> list[Example]:
    """Return the code blocks of a page in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        notes = dict(_NOTE.findall(match["notes"]))
        line = text.count("\n", 0, match.start("kind")) + 1
        check, code = notes.get("check", "run"), int(notes.get("exit", "0"))
        found.append(Example(page, line, match["kind"], match["text"], check, code))
    return found


def commands(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each command of a block, without comments, and the file that takes its
    output ("" = none).
    """
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        target = ""
        if ">" in words:
            place = words.index(">")
            words, target = words[:place], words[place + 1]
        if words:
            yield words, target


# --- run ------------------------------------------------------------------------------------------


def run_commands(example: Example) -> None:
    """Run the commands of a block in the current folder."""
    for words, target in commands(example.text):
        assert words[0] == "vil-bridge", (
            f"{example}: only vil-bridge is run; mark the block with <!-- check: parse -->"
        )
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == example.exit_code, (
            f"{example}: {shlex.join(words)}: {done.output}{done.exception!r}"
        )
        if target:
            Path(target).write_text(done.stdout, encoding="utf-8")


# --- parse ----------------------------------------------------------------------------------------


def parse(example: Example, folder: Path) -> None:
    """Check the commands or the imports of a block without running it.

    Input files are made empty in ``folder``.
    """
    if example.kind == "python":
        _resolve_imports(example)
        return
    for words, _ in commands(example.text):
        for word in words[1:]:
            name = word.rpartition("=")[2]
            assert not _FILE.match(name) or (ROOT / name).exists(), f"{example}: no file {name}"
            if _INPUT.search(word) and not Path(name).is_absolute():
                path = folder / _INPUT.search(name)[0].rpartition(":")[2]  # type: ignore[index]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        check = _PROGRAMS.get(words[0])
        if check is not None:
            check(example, words[1:])


def _resolve_imports(example: Example) -> None:
    for node in ast.walk(ast.parse(example.text)):
        if isinstance(node, ast.Import):
            modules = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for name, member in modules:
            name = f"vil_bridge.{name}" if name in ("client", "client_warp") else name
            if importlib.util.find_spec(name.partition(".")[0]) is None:
                continue  # an extra that is not installed
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError as exc:
                assert exc.name is None or not exc.name.startswith(("vil_", "tests")), (
                    f"{example}: {exc}"
                )
                continue
            assert not member or hasattr(module, member), f"{example}: {name} has no {member}"


def _parse_verb(example: Example, words: list[str]) -> None:
    command: Any = get_command(app)
    name = "vil-bridge"
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            if command.invoke_without_command:
                break
            assert any(words[0] in param.opts for param in command.params), (
                f"{example}: no option {words[0]}"
            )
            return
        name, *words = command.named(words, []) if isinstance(command, DefaultVerbGroup) else words
        assert name in command.commands, f"{example}: no verb {name}"
        command = command.commands[name]
    command.make_context(name, list(words))


def _parse_make(example: Example, words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        pattern = rf"\$\({name}\)" if is_variable else rf"^{name}:"
        assert re.search(pattern, makefile, re.M), f"{example}: make knows no {name}"


def _parse_python(example: Example, words: list[str]) -> None:
    if words[0] == "-m" and words[1] in sys.stdlib_module_names:
        return
    name = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    path = ROOT / name if (ROOT / name).exists() else ROOT / "vil_bridge" / name
    if words[0] == "-m" and not path.exists():
        path = (ROOT / name).with_suffix("") / "__main__.py"
    assert path.is_file(), f"{example}: no file {name}"
    text = "".join(file.read_text() for file in path.parent.glob("*.py"))
    for word in words:
        option = word.partition("=")[0]
        assert not option.startswith("--") or f'"{option}"' in text, (
            f"{example}: {name} has no option {option}"
        )


def _parse_pip(example: Example, words: list[str]) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = [
        extra
        for word in words
        for part in re.findall(r"\[(.*?)\]", word)
        for extra in part.split(",")
    ]
    assert set(extras) <= known.keys(), f"{example}: {extras}"


def _parse_curl(example: Example, words: list[str]) -> None:
    method = words[words.index("-X") + 1].lower() if "-X" in words else "get"
    (url,) = (word for word in words if "/api/" in word or re.search(r":\d+/\w", word))
    path = url[url.index("/", url.index("://") + 3 if "://" in url else 0) :].partition("?")[0]
    served = json.loads((ROOT / "docs/reference/openapi.json").read_text())["paths"]
    matching = [found for found in served if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", found), path)]
    assert any(method in served[found] for found in matching), f"{example}: no {method} {path}"


_PROGRAMS: Final[Mapping[str, Any]] = {
    "vil-bridge": _parse_verb,
    "make": _parse_make,
    "python": _parse_python,
    "python3": _parse_python,
    "pip": _parse_pip,
    "curl": _parse_curl,
}

# --- YAML -----------------------------------------------------------------------------------------


def load_yaml(example: Example, folder: Path) -> None:
    """Load a block as the kind of file that its marker names, by default as a bridge's
    configuration.
    """
    path = folder / "example.yaml"
    path.write_text(example.text, encoding="utf-8")
    if example.check == "run":
        path.write_text(yaml.safe_dump(completed(yaml.safe_load(example.text))), encoding="utf-8")
        load(path, env={}, resolve=registry.resolve)
    elif example.check == "scene":
        from vil_renderer.embedded.scenefile import load_scene

        load_scene(path)
    elif example.check == "course":
        from vil_bridge.config.course import load_course

        load_course(path)
    elif example.check == "markers":
        from vil_bridge.config.marker_template import read_template

        assert read_template(path)
    elif example.check == "dataset":
        from vil_simulation.dataset.plan import load_plan

        load_plan(path)
    else:
        raise AssertionError(f"{example}: no check is named {example.check!r}")


def completed(keys: dict[str, Any]) -> dict[str, Any]:
    """Return an excerpt of a configuration with what it refers to.

    Rooms, sources, actors, renderers and cameras.
    """
    whole: dict[str, Any] = {"version": 1, "require_cameras": "cameras" in keys, **keys}
    for output in whole.get("outputs", {}).values():
        for name in output.get("cameras", ()):
            whole.setdefault("cameras", {}).setdefault(
                name, {"actor": "drone", "renderer": "drawn"}
            )
        for name in output.get("actors", ()):
            whole.setdefault("actors", {}).setdefault(name, _vehicle(name))
    for camera in whole.get("cameras", {}).values():
        for name in _listed(camera.get("renderer")):
            renderers = whole.setdefault("renderers", {})
            if name != "auto" or not renderers:
                renderers.setdefault("drawn" if name == "auto" else name, {"type": "flightgoggles"})
        if (actor := camera.setdefault("actor", "world")) != "world":
            whole.setdefault("actors", {}).setdefault(actor, _vehicle(actor))
    for actor in whole.get("actors", {}).values():
        for name in (actor["source"], *_listed(actor.get("imu"))):
            whole.setdefault("sources", {}).setdefault(name, {"type": "optitrack", "room": "hall"})
    for source in whole.get("sources", {}).values():
        if "room" in source:
            whole.setdefault("rooms", {}).setdefault(source["room"], {})
    return whole


def _vehicle(name: str) -> dict[str, str]:
    return {"kind": "vehicle", "source": "mocap", "subject": name}


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())
