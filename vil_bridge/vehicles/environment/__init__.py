"""Environment of simulated vehicles: air, gravity, the magnetic field, wind, what vehicles do to each other."""
