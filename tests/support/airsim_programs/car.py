"""Programs for a car, run with AirSim's own client; as multirotor.py."""

import sys
import time
from pathlib import Path

import airsim


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


PROGRAMS = {"hello_car": hello_car}

if __name__ == "__main__":
    program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    client = airsim.CarClient(port=port)
    client.confirmConnection()
    PROGRAMS[program](client, folder)
