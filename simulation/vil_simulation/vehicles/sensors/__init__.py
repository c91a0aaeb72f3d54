"""Sensors of simulated vehicles: values, rates, latency and errors."""
