"""Checks of a computer and of what a configuration names: what is wrong, and its cure."""
