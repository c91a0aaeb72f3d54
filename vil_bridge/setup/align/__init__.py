"""Finding out how a tracked body is mounted: axes, handedness, pivot, and the place of its IMU."""
