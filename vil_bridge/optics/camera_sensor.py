"""Image sensors and stereo depth sensors as values.

What a real camera makes of the light that its lens gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_PHOTONS_PER_LUX_S_UM2: Final = 4090.0
"""Photons of 555 nm: a lux is 1/683 W/m2, a photon has 3.58e-19 J."""
_LENS_TRANSMISSION: Final = 0.9


class Mosaic(StrEnum):
    """Colour filters of the pixels.

    None, or the first two rows of a Bayer pattern, read row by row.
    """

    MONO = "mono"
    RGGB = "rggb"
    BGGR = "bggr"
    GRBG = "grbg"
    GBRG = "gbrg"


@dataclass(frozen=True, slots=True)
class ImageSensor:
    """An image sensor with its lens.

    Attributes:
        mosaic: colour filters.
        pixel_um: side of a pixel.
        quantum_efficiency: electrons per photon, 0..1, of the green pixels where there are colours.
        full_well_e: electrons that a pixel holds; all bits of the ADC are used for them at 0 dB.
        read_noise_e: standard deviation.
        dark_current_e_s: electrons per second and pixel without light.
        response_nonuniformity: standard deviation of the pixels' response, as a share: fixed
            pattern.
        dark_nonuniformity_e: standard deviation of the pixels' offsets: fixed pattern.
        hot_pixels: share of the pixels whose dark current is 2000 times as large.
        adc_bits: 8..16.
        f_number: of the lens.
        illuminance_lux: light on the scene with which a white surface is drawn white.
        exposure_s: exposure time; None = automatic.
        shortest_s, longest_s: limits of the automatic exposure.
        gain_db: analogue gain with a given exposure; the automatic one's largest.
        channel_response: of the red, green and blue pixels to white light.
        white_balance: ``auto`` (gray world), ``fixed`` (to ``channel_response``) or ``off``.
        vignetting: loss of light in the corners, 0..1.
        chromatic_aberration_px: by which red is farther from the middle than green in the corners,
            and blue nearer.
        glare: share of the light that the lens scatters over the picture.
        jpeg_quality: of the JPEG that the camera compresses to; None = none.
    """

    mosaic: Mosaic = Mosaic.MONO
    pixel_um: float = 3.0
    quantum_efficiency: float = 0.5
    full_well_e: float = 10_000.0
    read_noise_e: float = 5.0
    dark_current_e_s: float = 10.0
    response_nonuniformity: float = 0.01
    dark_nonuniformity_e: float = 1.0
    hot_pixels: float = 0.0
    adc_bits: int = 10
    f_number: float = 2.0
    illuminance_lux: float = 500.0
    exposure_s: float | None = None
    shortest_s: float = 1e-4
    longest_s: float = 0.02
    gain_db: float = 0.0
    channel_response: tuple[float, float, float] = (0.6, 1.0, 0.7)
    white_balance: str = "auto"
    vignetting: float = 0.0
    chromatic_aberration_px: float = 0.0
    glare: float = 0.0
    jpeg_quality: int | None = None

    @property
    def white_e_s(self) -> float:
        """Electrons per second of a green pixel that sees white: E T / (4 N^2) falls on it."""
        lux = self.illuminance_lux * _LENS_TRANSMISSION / (4.0 * self.f_number**2)
        return lux * _PHOTONS_PER_LUX_S_UM2 * self.pixel_um**2 * self.quantum_efficiency


@dataclass(frozen=True, slots=True)
class StereoDepth:
    """A depth camera that matches two pictures; its picture is that of the left one.

    Attributes:
        baseline_m: distance of the two.
        subpixel_px: standard deviation of the disparity.
        correlation_px: standard deviation of the Gaussian over which it is the same, from the
            matched windows.
        disparity_step_px: the disparity is a multiple of it.
        most_disparity_px: searched; what is nearer has no depth.
        most_m: what is farther has no depth.
        grazing_deg: surfaces seen more obliquely than this, from their normals, have no depth.
        least_contrast: standard deviation of the levels of 255 in a window of 7x7 pixels, below
            which nothing is matched; 0 = the camera projects a pattern of its own.
    """

    baseline_m: float
    subpixel_px: float
    correlation_px: float = 1.0
    disparity_step_px: float = 1.0 / 32.0
    most_disparity_px: float = 126.0
    most_m: float = 10.0
    grazing_deg: float = 80.0
    least_contrast: float = 0.0

    def sigma_m(self, z_m: float, f_px: float) -> float:
        """Return the standard deviation of a depth.

        That of the disparity with its steps, times z^2 / (f b).
        """
        sigma_px: float = (self.subpixel_px**2 + self.disparity_step_px**2 / 12.0) ** 0.5
        return z_m**2 * sigma_px / (f_px * self.baseline_m)
