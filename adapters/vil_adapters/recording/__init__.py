"""Foreign recordings as motion for the emulated laboratory."""

from vil_adapters.recording.euroc import EurocMotion, Window

__all__ = ["EurocMotion", "Window"]
