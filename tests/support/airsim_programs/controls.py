"""Programs that fly a multirotor by attitudes, rates, rotors, gains and sticks, run with
AirSim's own client.
"""

import time

import airsim
from flying import near, position


def manual_levels(client, folder):
    """Attitudes, rates, throttles and rotors."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveToZAsync(-6, 2).join()
    client.moveByRollPitchYawZAsync(0.0, 0.05, 0.0, -6, 0.5).join()
    client.moveByRollPitchYawrateZAsync(0.05, 0.0, 0.2, -6, 0.5).join()
    client.moveByRollPitchYawThrottleAsync(0, 0, 0, 0.6, 0.5).join()
    client.moveByRollPitchYawrateThrottleAsync(0, 0, 0, 0.6, 0.2).join()
    client.moveByAngleRatesZAsync(0, 0, 0.3, -6, 0.3).join()
    client.moveByAngleRatesThrottleAsync(0, 0, 0.3, 0.6, 0.3).join()
    client.moveByMotorPWMsAsync(0.6, 0.6, 0.6, 0.6, 0.2).join()
    assert position(client).z_val < -3


def gains(client, folder):
    """Velocity gains of a tenth: it gains speed slowly; the default ones again.

    Each of the four loops; wrong ones.
    """
    client.armDisarm(True)
    client.takeoffAsync().join()

    def speed():
        client.moveByVelocityAsync(3, 0, 0, 1).join()
        return client.getMultirotorState().kinematics_estimated.linear_velocity.x_val

    pid = airsim.PIDGains
    client.setVelocityControllerGains(
        airsim.VelocityControllerGains(pid(0.02, 0, 0), pid(0.02, 0, 0), pid(2, 2, 0))
    )
    slow = speed()
    client.setVelocityControllerGains()
    client.moveByVelocityAsync(0, 0, 0, 3).join()
    assert 0 < slow < 0.4 * speed()
    client.setAngleRateControllerGains(
        airsim.AngleRateControllerGains(*[pid(0.2, 0.01, 0.001)] * 3)
    )
    client.setAngleLevelControllerGains(airsim.AngleLevelControllerGains(*[pid(2, 0, 0)] * 3))
    client.setPositionControllerGains(airsim.PositionControllerGains(*[pid(0.2, 0, 0)] * 3))
    client.moveToPositionAsync(4, 2, -3, 2).join()
    near(client, 4, 2, -3)
    for wrong in (float("nan"), 1e30, "far"):
        try:
            client.setAngleRateControllerGains(
                airsim.AngleRateControllerGains(roll_gains=pid(wrong, 0, 0))
            )
        except Exception as exc:
            assert "threw an exception" in str(exc), exc
        else:
            raise AssertionError(wrong)
    client.setAngleRateControllerGains()
    client.setAngleLevelControllerGains()
    client.setPositionControllerGains()


def sticks(client, folder):
    """A remote control moves it during a manual move; without API control it flies it by itself."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveToZAsync(-4, 2).join()
    client.moveByRC(airsim.RCData(pitch=0.02, is_initialized=True, is_valid=True))
    client.moveByManualAsync(vx_max=1e6, vy_max=1e6, z_min=-1e6, duration=3).join()
    assert client.getMultirotorState().kinematics_estimated.linear_velocity.x_val > 0.5
    client.moveByRC(airsim.RCData(is_valid=False))
    start = position(client)
    client.moveByManualAsync(1e6, 1e6, -1e6, 6).join()
    stopped = client.getMultirotorState().kinematics_estimated
    assert abs(stopped.linear_velocity.x_val) < 0.2 and position(client).x_val > start.x_val
    client.moveByRC(airsim.RCData(throttle=0.9, is_valid=True))
    client.moveByVelocityAsync(0, 0, 0, 2).join()
    assert abs(position(client).z_val - stopped.position.z_val) < 1.0  # a program commands it
    client.enableApiControl(False)
    client.moveByRC(airsim.RCData(throttle=0.9, is_valid=True))
    before = client.getMultirotorState()
    while client.getMultirotorState().timestamp < before.timestamp + 1e9:
        time.sleep(0.02)
    assert position(client).z_val < before.kinematics_estimated.position.z_val - 1
    for wrong in (
        airsim.RCData(pitch=2.0, is_valid=True),
        airsim.RCData(timestamp=5, is_valid=True),
    ):
        try:
            client.moveByRC(wrong)
        except Exception as exc:
            assert "threw an exception" in str(exc), exc
        else:
            raise AssertionError(wrong)
    client.enableApiControl(True)
