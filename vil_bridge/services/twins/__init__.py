"""Live distances between vehicles and their twins, with an alarm."""
