"""A virtual world for whole bridges: time, threads and messages that depend on a seed alone."""
