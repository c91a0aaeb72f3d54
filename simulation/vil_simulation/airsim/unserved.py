"""Names of AirSim and of its drone racing lab that are missing here, with the reason for the
caller and the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_UNREAL: Final = "it belongs to the Unreal Engine"
_LENS: Final = "lenses of the Unreal Engine's cameras are not simulated"

MISSING: Final[Mapping[str, str]] = {
    **dict.fromkeys(("simRunConsoleCommand", "simSetLightIntensity"), _UNREAL),
    **dict.fromkeys(
        (
            "simEnableFocusPlane",
            "simEnableManualFocus",
            "simGetCurrentFieldOfView",
            "simGetFilmbackSettings",
            "simGetFocalLength",
            "simGetFocusAperture",
            "simGetFocusDistance",
            "simGetLensSettings",
            "simGetPresetFilmbackSettings",
            "simGetPresetLensSettings",
            "simSetFilmbackSettings",
            "simSetFocalLength",
            "simSetFocusAperture",
            "simSetFocusDistance",
            "simSetPresetFilmbackSettings",
            "simSetPresetLensSettings",
        ),
        _LENS,
    ),
}
