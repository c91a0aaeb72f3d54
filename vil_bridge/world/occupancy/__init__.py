"""Occupancy of space: voxels from points, depth pictures and surfaces, as OctoMap counts them."""
