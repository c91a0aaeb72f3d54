"""Groups of verbs that take what follows as arguments of their first verb, unless it names
another one.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class DefaultVerbGroup(TyperGroup):
    """Group of verbs whose first one need not be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments, with the name of the verb put before those that name none."""
        return super().parse_args(ctx, self.named(args, ctx.help_option_names))

    def named(self, args: list[str], help_options: list[str]) -> list[str]:
        """Return the arguments, with the name of the first verb in front unless they name one or
        ask for help.
        """
        if not args or args[0] in self.commands or args[0] in help_options:
            return args
        return [next(iter(self.commands)), *args]
