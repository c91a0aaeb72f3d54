"""Builds what a package needs in addition to Python.

The dashboard and the compiled kernel of the pose path.

Editable installs leave the dashboard to ``make web``. Without a compiler, or with
``VIL_KERNEL=off``, a wheel is pure Python; the kernel's NumPy twins compute the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_KERNEL: Final = Path("vil_bridge") / "kernel"
_LIBRARY: Final = "libvil_kernel.so"
# Contracted products would round otherwise on ARM than the twins and than x86-64.
FLAGS: Final = ("-O3", "-std=c11", "-Wall", "-Wextra", "-ffp-contract=off", "-fPIC", "-shared")


class PackageHook(BuildHookInterface[Any]):
    """Runs npm where the page is missing or older than its sources, and the C compiler.

    A source distribution carries the page, so that a wheel builds from it without Node.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling calls this before it collects files.

        Raises CalledProcessError when npm or the compiler fails.
        """
        root = Path(self.root)
        if version != "editable":
            self._build_dashboard(root / "vil_bridge" / "web")
        if (
            self.target_name == "wheel"
            and self._build_kernel(root / _KERNEL)
            and version != "editable"
        ):
            build_data["artifacts"].append(str(_KERNEL / _LIBRARY))
            build_data["pure_python"] = False
            build_data["tag"] = (
                f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            )

    def _build_dashboard(self, web: Path) -> None:
        if _is_new(web / "static" / "index.html", web / "frontend"):
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning(
                "npm is absent: this package gets the static page, not the dashboard"
            )
            return
        for arguments in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *arguments], cwd=web / "frontend", check=True)  # noqa: S603

    def _build_kernel(self, folder: Path) -> bool:
        """Build the shared library next to its sources.

        Returns False when this package goes without it.
        """
        sources = sorted(folder.glob("*.c"))
        compiler = c_compiler()
        if not sources or os.environ.get("VIL_KERNEL") == "off":
            return False
        if compiler is None:
            self.app.display_warning(
                "no C compiler that works (Debian: apt-get install gcc libc6-dev): no "
                "compiled kernel"
            )
            return False
        library = folder / _LIBRARY
        made = library.with_suffix(".new")
        subprocess.run(  # noqa: S603
            [compiler, *FLAGS, "-o", str(made), *map(str, sources), "-lm"],
            check=True,
        )
        made.replace(library)
        return True


def c_compiler() -> str | None:
    """Return the C compiler.

    None where there is none, or where it finds no headers of the C library.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    probe = [compiler, "-x", "c", "-fsyntax-only", "-"]
    done = subprocess.run(  # noqa: S603
        probe,
        input=b"#include <math.h>\n",
        capture_output=True,
        check=False,
    )
    return compiler if done.returncode == 0 else None


def _is_new(page: Path, web: Path) -> bool:
    sources = [*web.glob("src/**/*"), *web.glob("*.*")]
    return page.exists() and all(
        file.stat().st_mtime <= page.stat().st_mtime for file in sources if file.is_file()
    )
