"""Benchmarks that run from a checkout: ratios to a reference in the same run."""
