"""Write a package that extends the bridge: ``make new-output NAME=foo [DIR=path]``.

The package of a kind is a copy of its folder in ``examples`` under another name. It passes its own
tests as written; the lines to change are marked TODO. CONTRIBUTING.md names the kinds.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATES: Final = ROOT / "examples"
KINDS: Final = ("adapter", "output", "service", "vehicle")
"""Folders of the templates."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SUFFIXES: Final = frozenset({".md", ".py", ".toml", ".yaml"})


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the package of a kind under a name into a new folder and return its files.

    Raises:
        ValueError: the name is not a Python name in lower case.
        FileExistsError: there is something in the folder.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a name of lower-case letters, digits and single "
            "underscores. Choose another"
        )
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty. Choose another folder with DIR=path")
    words = {
        "Example": "".join(part.capitalize() for part in name.split("_")),
        "vil-example": f"vil-{name.replace('_', '-')}",
        "example": name,
        "BRIDGE": str(ROOT),
    }
    pattern = re.compile("|".join(words))
    template = TEMPLATES / kind
    written = []
    for source in sorted(path for path in template.rglob("*") if path.suffix in _SUFFIXES):
        target = folder / pattern.sub(
            lambda match: words[match[0]], str(source.relative_to(template))
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(pattern.sub(lambda match: words[match[0]], source.read_text()))
        written.append(target)
    return written


def main() -> int:
    """Write the package that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS, help="what the package adds")
    parser.add_argument("name", help="its name in configuration files, such as my_system")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="new folder; vil-NAME next to the repository if absent"
    )
    arguments = parser.parse_args()
    folder = arguments.folder or ROOT.parent / f"vil-{arguments.name.replace('_', '-')}"
    try:
        written = write(arguments.kind, arguments.name, folder)
    except (ValueError, FileExistsError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    todo = sum(path.read_text().count("TODO") for path in written)
    sys.stdout.write(
        f"{folder}: {len(written)} files, {todo} places marked TODO. "
        f"Next: . {sys.prefix}/bin/activate && cd {folder} && pytest\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
