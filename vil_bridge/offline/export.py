"""Export of a recording into the formats of other programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from vil_bridge.assembly.recorded import recorded_config, recording_metadata
from vil_bridge.core.errors import RecordingError
from vil_bridge.recording.export import FORMATS
from vil_bridge.recording.reader import Recording
from vil_bridge.runtime.output_folder import new_folder


def export(file: Path, kind: str, out: Path) -> Counter[str]:
    """Write a recording into a new folder.

    Args:
        file: the recording.
        kind: one of :data:`FORMATS`.
        out: the folder; what it holds is never replaced, and nothing is left in it when the export
            fails.

    Returns:
        How many rows, pictures or messages were written, by name.

    Raises:
        RecordingError: the file cannot be read, or holds nothing for this format.
        ConfigError: the folder is not empty or cannot be made, or a package is absent.
        OSError: the disk is full.
    """
    with Recording(file) as recording:
        facts = recording_metadata(
            recorded_config(recording), recording.utc_offset_ns, recording.version
        )
        with new_folder(out, "an export"):
            written = FORMATS[kind](recording, facts, out)
            if not written:
                raise RecordingError(f"{file} holds nothing that {kind} could take")
    return written
