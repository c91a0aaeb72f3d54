"""Attacks on a running bridge, as programs.

``python -m tests.attacks.run`` (tests/attacks/README.md).
"""
