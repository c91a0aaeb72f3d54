"""Vectorized learning tasks on plain arrays.

``vil_simulation.learning`` wraps them as gymnasium environments.
"""
