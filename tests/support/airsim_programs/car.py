"""Programs for a car, run with AirSim's own client; as multirotor.py."""

import math
import sys
import time
from pathlib import Path

import airsim
import numpy as np


def hello_car(client, folder):
    """Forward, to the right, back, and a stop."""
    client.enableApiControl(True)
    controls = airsim.CarControls()
    state = client.getCarState()
    assert state.gear == 0 and abs(state.speed) < 0.1
    controls.throttle, controls.steering = 0.5, 0
    client.setCarControls(controls)
    while client.getCarState().speed < 2:
        time.sleep(0.02)
    assert client.getCarState().kinematics_estimated.position.x_val > 0.5
    controls.steering = 1
    client.setCarControls(controls)
    while client.getCarState().kinematics_estimated.orientation.z_val < 0.01:
        time.sleep(0.02)
    controls = airsim.CarControls(throttle=-0.5, is_manual_gear=True, manual_gear=-1)
    client.setCarControls(controls)
    assert client.getCarControls().manual_gear == -1
    client.setCarControls(airsim.CarControls(brake=1))
    while abs(client.getCarState().speed) > 0.2:
        time.sleep(0.02)
    responses = client.simGetImages([airsim.ImageRequest("0", airsim.ImageType.Scene)])
    assert responses[0].image_data_uint8[:4] == b"\x89PNG"
    client.reset()


def steer_to(client, goal, throttle):
    """Steer to a point (north, east) for 50 ms and return the distance to it.

    Positive steering is to the right.
    """
    place = client.getCarState().kinematics_estimated
    north, east = goal[0] - place.position.x_val, goal[1] - place.position.y_val
    yaw = airsim.to_eularian_angles(place.orientation)[2]
    turn = (math.atan2(east, north) - yaw + math.pi) % (2 * math.pi) - math.pi
    client.setCarControls(
        airsim.CarControls(throttle=throttle, steering=max(-1.0, min(1.0, 2 * turn)))
    )
    client.simContinueForTime(0.05)
    return math.hypot(north, east)


def course(client, folder):
    """Round a course between the pillars, past each corner once, then into a pillar, from which
    the car rolls back.
    """
    client.enableApiControl(True)
    client.reset()
    client.simPause(True)
    assert not client.simGetCollisionInfo().has_collided
    for corner in ((14, 2), (14, 16), (0, 18), (-12, 10), (-10, -6), (2, -4)):
        for _ in range(400):
            if steer_to(client, corner, 0.25) < 2.5:
                break
        else:
            raise AssertionError(f"the car never came to {corner}")
        assert abs(client.getCarState().kinematics_estimated.position.z_val) < 1e-6
    assert not client.simGetCollisionInfo().has_collided
    pillar = client.simGetObjectPose("Cylinder2").position
    for _ in range(400):
        steer_to(client, (pillar.x_val, pillar.y_val), 0.5)
        hit = client.simGetCollisionInfo()
        if hit.has_collided:
            break
    assert hit.object_name == "Cylinder2", hit
    assert 0 <= hit.penetration_depth < 0.1 and abs(hit.normal.z_val) < 1e-6
    away = np.array((pillar.x_val - hit.impact_point.x_val, pillar.y_val - hit.impact_point.y_val))
    assert 0.7 < np.linalg.norm(away) < 0.76
    assert np.dot(away / np.linalg.norm(away), (hit.normal.x_val, hit.normal.y_val)) < -0.99
    assert client.getCarState().speed < 0
    client.simPause(False)
    client.reset()


PROGRAMS = {"hello_car": hello_car, "course": course}

if __name__ == "__main__":
    program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    client = airsim.CarClient(port=port)
    client.confirmConnection()
    PROGRAMS[program](client, folder)
