"""MkDocs hooks: pages of reference that are made from the code, and links that leave the
documentation.

Sources outside docs/ are not part of the site: links to them become their paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "configuration_keys": _configuration(),
        "rest_operations": _rest(),
        "metrics": _metrics(),
        "commands": _commands(),
    }
    for name, lines in pages.items():
        files.append(
            File.generated(config, f"reference/{name}.md", content="\n".join(lines) + "\n")
        )
    return files


def on_page_markdown(
    markdown: str,
    page: Page,
    config: MkDocsConfig,  # noqa: ARG001
    files: Files,  # noqa: ARG001
) -> str:
    """Turn links that leave the site into text."""
    folder = Path(page.file.src_uri).parent

    def as_text(match: re.Match[str]) -> str:
        text, target, _ = match.groups()
        path = (ROOT / "docs" / folder / target).resolve()
        inside = path.is_relative_to(ROOT / "docs") and (
            path.is_file() or (path / "README.md").is_file()
        )
        if inside and path.is_file():
            return match[0]
        if inside:
            return match[0].replace(target, target.rstrip("/") + "/README.md")
        where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path(target)
        return text if text.strip("`") == str(where) else f"{text} (`{where}`)"

    return _LINK.sub(as_text, markdown)


# --- configuration -------------------------------------------------------------------------------


def _configuration() -> Iterator[str]:
    from vil_bridge.config.schema import json_schema
    from vil_bridge.registry import plugin_names, resolve

    sections = ("sources", "renderers", "outputs")
    schema = json_schema({s: [resolve(s)[name]() for name in plugin_names(s)] for s in sections})
    yield from (
        "# Configuration keys",
        "",
        "This page lists the keys, from the code. [Configuration](configuration.md) "
        "describes the order of values.",
        "",
    )
    yield from ("## The file", "", *_table(schema, schema["$defs"]), "")
    for section in sections:
        for name in plugin_names(section):
            model = schema["$defs"][_definition(resolve(section)[name](), schema["$defs"])]
            yield from (
                f"## {section}: `type: {name}`",
                "",
                str(model.get("description", "")).split("\n\n")[0],
                "",
            )
            yield from (*_table(model, schema["$defs"]), "")


def _definition(model: type, definitions: Mapping[str, Any]) -> str:
    (name,) = [
        key for key in definitions if key == model.__name__ or key.endswith(f"__{model.__name__}")
    ][:1]
    return name


def _table(model: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "| --- | --- | --- |"
    for key, default, text in _keys(model, definitions):
        yield f"| `{key}` | {default} | {text} |"


def _keys(
    model: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    required = set(model.get("required", ()))
    for name, entry in model.get("properties", {}).items():
        text = str(entry.get("description", "")).replace("|", "\\|").replace("\n", " ")
        inner = _model_in(entry, definitions)
        default = "required" if name in required else _written(entry)
        yield prefix + name, "" if inner is not None and default != "required" else default, text
        if inner is not None and prefix.count(".") < 3:
            deeper, key = inner
            yield from _keys(deeper, definitions, f"{prefix}{name}.{key}")


def _model_in(
    entry: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str] | None:
    """Return the model that a key holds, and the prefix of its keys.

    ``NAME.`` in a table of names.
    """
    choices = [entry, *entry.get("anyOf", ()), *entry.get("allOf", ())]
    tables = [
        t
        for c in choices
        for t in (*c.get("patternProperties", {}).values(), c.get("additionalProperties"))
    ]
    for found, key in [
        *((c, "") for c in choices),
        *((t, "NAME.") for t in tables if isinstance(t, Mapping)),
    ]:
        name = str(found.get("$ref", "")).rpartition("/")[2]
        if definitions.get(name, {}).get("properties"):
            return definitions[name], key
    return None


def _written(entry: Mapping[str, Any]) -> str:
    if "default" not in entry:
        return f"`{entry['const']}`" if "const" in entry else ""
    return f"`{json.dumps(entry['default'], ensure_ascii=False)}`".replace("|", "\\|")


# --- the rest ------------------------------------------------------------------------------------


def _rest() -> Iterator[str]:
    document = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    yield from (
        "# REST operations",
        "",
        "This page lists the operations of [openapi.json](openapi.json). [REST](rest.md) "
        "describes them.",
        "",
    )
    yield from ("| method | path | effect |", "| --- | --- | --- |")
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            yield (
                f"| {method.upper()} | `{path}` | {operation.get('summary', '')}. "
                f"{_first(operation)} |"
            )


def _first(operation: Mapping[str, Any]) -> str:
    return (
        str(operation.get("description", ""))
        .split("\n\n")[0]
        .replace("\n", " ")
        .replace("|", "\\|")
    )


def _metrics() -> Iterator[str]:
    from vil_bridge.monitoring.prometheus import metrics_registry
    from vil_bridge.web.schemas.status import BridgeStatus

    registry = metrics_registry(lambda: BridgeStatus(0, "", "", 0.0, ready=False))
    yield from ("# Metrics", "", "This page lists the metrics of `/metrics`, from the code.", "")
    yield from ("| name | kind | labels | meaning |", "| --- | --- | --- | --- |")
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = ", ".join(getattr(family, "_labelnames", ()))
        yield f"| `{name}` | {family.type} | {labels} | {family.documentation} |"


def _commands() -> Iterator[str]:
    from typer.main import get_command
    from typer.testing import CliRunner

    from vil_bridge.cli.main import app

    runner = CliRunner(env={"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"})

    def helped(verb: Iterable[str]) -> str:
        done = runner.invoke(app, [*verb, "--help"])
        if done.exit_code:
            raise RuntimeError(f"vil-bridge {' '.join(verb)} --help: {done.output}")
        return "\n".join(line.rstrip() for line in done.output.strip().splitlines())

    yield from ("# Commands", "", "This page lists the help of each verb.", "")
    yield from (
        "Exit codes: 0 success, 1 bug, 2 bad configuration, 3 a check failed, 4 a "
        "required source is lost.",
        "",
    )
    command: Any = get_command(app)
    for verb, found in command.commands.items():
        yield from (f"## {verb}", "", "```text", helped([verb]), "```", "")
        for inner in getattr(found, "commands", ()):
            yield from (f"### {verb} {inner}", "", "```text", helped([verb, inner]), "```", "")
