"""Person detector of MediaPipe on a folder of pictures: the landmarks that it finds in each, as JSON.

Run as a file by the interpreter that has ``mediapipe``; the bridge is not imported.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def main(folder: Path) -> None:
    """Print ``{file: [[x, y], ...]}`` with landmarks in pixels; an empty list where no person is found."""
    mediapipe: Any = import_module("mediapipe")
    found = {}
    with mediapipe.solutions.pose.Pose(static_image_mode=True) as detector:
        for path in sorted(folder.glob("*.npy")):
            pixels = np.load(path)
            marks = detector.process(pixels).pose_landmarks
            height, width = pixels.shape[:2]
            found[path.stem] = [[m.x * width, m.y * height] for m in marks.landmark] if marks else []
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
