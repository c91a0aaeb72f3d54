"""Sessions written to disk in formats that other programs read."""
