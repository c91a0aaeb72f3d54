"""Recordings of a running bridge, and their replay in place of live sources."""
