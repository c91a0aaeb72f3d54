"""Person detector of MediaPipe on a folder of pictures.

The landmarks that it finds in each at each threshold, as JSON.

Run as a file by the interpreter that has ``mediapipe``; the bridge is not imported.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def main(folder: Path, confidences: list[str]) -> None:
    """Print ``{confidence: {file: [[x, y], ...]}}``: landmarks in pixels.

    An empty list where no person is found.
    """
    found = {confidence: _found(folder, float(confidence)) for confidence in confidences}
    sys.stdout.write(json.dumps(found) + "\n")


def _found(folder: Path, confidence: float) -> dict[str, list[list[float]]]:
    mediapipe: Any = import_module("mediapipe")
    found = {}
    with mediapipe.solutions.pose.Pose(
        static_image_mode=True, min_detection_confidence=confidence
    ) as detector:
        for path in sorted(folder.glob("*.npy")):
            pixels = np.load(path)
            marks = detector.process(pixels).pose_landmarks
            height, width = pixels.shape[:2]
            found[path.stem] = (
                [[m.x * width, m.y * height] for m in marks.landmark] if marks else []
            )
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
