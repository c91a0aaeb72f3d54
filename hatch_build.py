"""Builds the dashboard into wheels and source distributions; editable installs leave that to ``make web``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface):
    """Runs npm where the page is missing or older than its sources.

    A source distribution carries the page, so that a wheel builds from it without Node.
    """

    def initialize(self, version: str, _build_data: dict[str, Any]) -> None:
        """Hatchling calls this before it collects files. Raises CalledProcessError when npm fails."""
        web = Path(self.root) / "vil_bridge" / "web"
        if version == "editable" or _is_new(web / "static" / "index.html", web / "frontend"):
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("npm is absent: this package gets the static page, not the dashboard")
            return
        for arguments in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *arguments], cwd=web / "frontend", check=True)  # noqa: S603


def _is_new(page: Path, web: Path) -> bool:
    sources = [*web.glob("src/**/*"), *web.glob("*.*")]
    return page.exists() and all(file.stat().st_mtime <= page.stat().st_mtime for file in sources if file.is_file())
