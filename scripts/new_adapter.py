"""Write the package of a new source: ``make new-adapter NAME=foo [DIR=path]``.

The package is a copy of ``examples/adapter`` under another name. It passes the contract suite as
written; the lines to change are marked TODO. adapters/README.md is the guide.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATE: Final = ROOT / "examples" / "adapter"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SUFFIXES: Final = frozenset({".py", ".toml", ".yaml"})


def write(name: str, folder: Path) -> list[Path]:
    """Write the package of source ``name`` into a new folder and return its files.

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
    written = []
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.suffix in _SUFFIXES):
        target = folder / pattern.sub(
            lambda match: words[match[0]], str(source.relative_to(TEMPLATE))
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
    parser.add_argument("name", help="type of the source, such as my_system")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="new folder; vil-NAME next to the repository if absent"
    )
    arguments = parser.parse_args()
    folder = arguments.folder or ROOT.parent / f"vil-{arguments.name.replace('_', '-')}"
    try:
        written = write(arguments.name, folder)
    except (ValueError, FileExistsError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    todo = sum(line.count("TODO") for path in written for line in path.read_text().splitlines())
    sys.stdout.write(
        f"{folder}: {len(written)} files, {todo} places marked TODO. Next: cd {folder} && pytest\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
