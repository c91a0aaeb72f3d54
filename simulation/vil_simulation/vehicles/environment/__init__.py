"""Environment of simulated vehicles.

Air, gravity, the magnetic field, wind, what vehicles do to each other.
"""
