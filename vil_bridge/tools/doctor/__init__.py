"""Looks at a computer and at what a configuration names: what is wrong, and what cures it."""
