"""``python -m tests.support.import_all PACKAGE...`` imports every module of installed packages.

An error of a module is raised. Modules whose extra is not installed count as absent.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path


def modules_of(package: str) -> list[str]:
    """Return the names of a package's modules, without programs' ``__main__``."""
    (folder,) = importlib.import_module(package).__path__
    files = (path.relative_to(folder).with_suffix("") for path in Path(folder).rglob("*.py"))
    names = {".".join((package, *file.parts)).removesuffix(".__init__") for file in files}
    return sorted(name for name in names if not name.endswith("__main__"))


def main(packages: list[str]) -> None:
    """Import them and print how many there are; an error of a module is raised."""
    counts: Counter[str] = Counter()
    for name in (name for package in packages for name in modules_of(package)):
        try:
            importlib.import_module(name)
            counts["imported"] += 1
        except ModuleNotFoundError as exc:
            if (exc.name or "").partition(".")[0] in packages:
                raise
            counts[f"absent: {exc.name or exc}"] += 1
    print(
        f"Python {sys.version.split()[0]}:",
        ", ".join(f"{count} {what}" for what, count in counts.items()),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
