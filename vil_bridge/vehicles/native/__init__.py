"""Compiled kernels of the vehicle models (extra ``sim``); the NumPy models are what they are tested against."""
