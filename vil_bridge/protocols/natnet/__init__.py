"""NatNet messages, frames and descriptions: bytes to values and back."""
