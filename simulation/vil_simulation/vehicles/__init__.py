"""Simulated vehicles: dynamics, sensors, environment and control as a library of their own."""
