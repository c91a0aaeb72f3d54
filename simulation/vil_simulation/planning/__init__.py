"""Planning of flights: occupancy maps, paths through them, and the flights that follow."""
