"""Parts and rooms by name, with the figures that simulators publish for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vil_simulation.vehicles.sensors.barometer import BarometerParameters
from vil_simulation.vehicles.sensors.beams import BeamParameters
from vil_simulation.vehicles.sensors.gps import GpsParameters
from vil_simulation.vehicles.sensors.imu import ImuParameters, InertialNoise
from vil_simulation.vehicles.sensors.magnetometer import MagnetometerParameters
from vil_simulation.vehicles.sensors.mocap import MocapParameters
from vil_simulation.vehicles.sensors.rangefinder import RangeParameters

_MTI_RATE_HZ: Final = 960.0
_G_MPS2: Final = 9.80665
_FASTEST_RADPS: Final = math.radians(2000.0)
"""Widest range of the gyroscopes of MPU-6000, MTi-1, VN-100 and BMI088, by their data sheets."""

IMU_PRESETS: Final[Mapping[str, ImuParameters]] = MappingProxyType(
    {
        # Values are simulators', ranges those of the parts' data sheets, the widest: 16 g, 24 g of
        # the BMI088. AirSim's values: 0.30 deg/sqrt(h), 4.6 deg/h over 500 s; 0.24 mg/sqrt(Hz), 36
        # ug over 800 s.
        "mpu6000": ImuParameters(
            gyro=InertialNoise(
                white=math.radians(0.30) / 60.0,
                walk=math.radians(4.6) / 3600.0 / math.sqrt(500.0),
                limit=_FASTEST_RADPS,
            ),
            accel=InertialNoise(
                white=0.24e-3 * _G_MPS2,
                walk=36e-6 * _G_MPS2 / math.sqrt(800.0),
                limit=16.0 * _G_MPS2,
            ),
        ),
        # FlightGoggles's values, modelled on an Xsens MTi-1: variances per sample at 960 Hz.
        "mti1": ImuParameters(
            gyro=InertialNoise(
                white=math.sqrt(0.003 / _MTI_RATE_HZ), walk=math.sqrt(1e-7), limit=_FASTEST_RADPS
            ),
            accel=InertialNoise(
                white=math.sqrt(0.005 / _MTI_RATE_HZ), walk=math.sqrt(1e-7), limit=16.0 * _G_MPS2
            ),
            rate_hz=_MTI_RATE_HZ,
        ),
        # Aerial Gym's values.
        "vn100": ImuParameters(
            gyro=InertialNoise(white=1.07e-3, walk=2.7e-5, limit=_FASTEST_RADPS),
            accel=InertialNoise(white=1.69e-3, walk=9.8e-7, limit=16.0 * _G_MPS2),
        ),
        # Aerial Gym's values: 0.014 deg/s/sqrt(Hz); 160, 160 and 190 ug/sqrt(Hz) on x, y and z.
        "bmi088": ImuParameters(
            gyro=InertialNoise(
                white=2.443460952792061e-4, walk=1.4352700094407325e-5, limit=_FASTEST_RADPS
            ),
            accel=InertialNoise(
                white=(1.569064e-3, 1.569064e-3, 1.8632635e-3),
                walk=1.3564659966250536e-3,
                limit=24.0 * _G_MPS2,
            ),
        ),
        # Pegasus's values.
        "pegasus": ImuParameters(
            gyro=InertialNoise(
                white=3.394e-4, walk=3.879e-5, correlation_s=1000.0, turn_on=8.73e-3
            ),
            accel=InertialNoise(white=4e-3, walk=6e-3, correlation_s=300.0, turn_on=0.196),
            rate_hz=250.0,
        ),
        # rotorpy's values; its densities count one side of the spectrum.
        "rotorpy": ImuParameters(
            gyro=InertialNoise(white=0.01**2 / math.sqrt(2.0)),
            accel=InertialNoise(white=0.038**2 / math.sqrt(2.0)),
            rate_hz=500.0,
        ),
    }
)
"""Inertial sensors by name, all at the centre of gravity and without vibration.

``dataclasses.replace`` adds it.
"""

BAROMETER_PRESETS: Final[Mapping[str, BarometerParameters]] = MappingProxyType(
    {"ms5611": BarometerParameters()}
)
"""Barometers by name."""

MAGNETOMETER_PRESETS: Final[Mapping[str, MagnetometerParameters]] = MappingProxyType(
    {"airsim": MagnetometerParameters()}
)
"""Magnetometers by name."""

GPS_PRESETS: Final[Mapping[str, GpsParameters]] = MappingProxyType({"airsim": GpsParameters()})
"""Satellite receivers by name."""

RANGE_PRESETS: Final[Mapping[str, RangeParameters]] = MappingProxyType(
    {
        "airsim": RangeParameters(),
        # The variance of its configuration; the default of its code is a tenth of it.
        "flightgoggles": RangeParameters(
            min_m=0.0, max_m=20.0, noise_m=math.sqrt(0.009), rate_hz=60.0
        ),
    }
)
"""Range finders by name."""

BEAM_PRESETS: Final[Mapping[str, BeamParameters]] = MappingProxyType(
    {"airsim": BeamParameters(noise_m=0.2)}
)
"""Distance sensors by name."""

ROOM_PRESETS: Final[Mapping[str, MocapParameters]] = MappingProxyType(
    {
        "ideal": MocapParameters(),
        # rotorpy's densities.
        "rotorpy": MocapParameters(position_m=5e-4, attitude_rad=5e-4),
        # Ours: four markers on 10 cm, a fifth of a millimetre.
        "good": MocapParameters(
            markers_body_m=(
                (0.07, 0.07, 0.02),
                (0.07, -0.07, 0.0),
                (-0.07, 0.05, 0.01),
                (-0.06, -0.07, 0.03),
            ),
            marker_noise_m=2e-4,
            jitter_s=2e-4,
        ),
        # Ours: everything that goes wrong, each every few seconds.
        "bad": MocapParameters(
            rate_hz=100.0,
            latency_s=0.015,
            jitter_s=0.005,
            markers_body_m=(
                (0.07, 0.07, 0.02),
                (0.07, -0.07, 0.0),
                (-0.07, 0.05, 0.01),
                (-0.06, -0.07, 0.03),
            ),
            marker_noise_m=1e-3,
            marker_hidden=0.02,
            occlusions_hz=0.3,
            occlusion_s=0.2,
            swaps_hz=0.05,
            spikes=0.005,
            spike_m=0.3,
            loss=0.02,
            clock_offset_s=1000.0,
            clock_drift_ppm=50.0,
        ),
    }
)
"""Motion-capture rooms by name."""
