"""VRPN messages: bytes to values and back."""
