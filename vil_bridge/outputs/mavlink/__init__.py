"""The pose of an actor to its autopilot."""
