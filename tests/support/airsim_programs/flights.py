"""Flights with the reference's acceptance numbers through the RPC, run with AirSim's own client.

Run as `python flights.py PROGRAM PORT FOLDER`. Tracks are read in steps of simulated time, so that
neither the speed of the computer nor that of the clock counts.
"""

import math
import sys
from itertools import pairwise
from pathlib import Path

import airsim
import numpy as np

FORWARD, FREE = airsim.DrivetrainType.ForwardOnly, airsim.DrivetrainType.MaxDegreeOfFreedom
NORTH = airsim.YawMode(False, 0)
CIRCLE_M = 10.0
TURN_S = 40.0
SIDE_M = 5.0
SIDE_MPS = 1.2


def airborne(client, height_m=5.0):
    """Reset and put the vehicle at rest into the air."""
    client.simPause(False)
    client.reset()
    client.enableApiControl(True)
    client.armDisarm(True)
    client.simSetVehiclePose(
        airsim.Pose(airsim.Vector3r(0, 0, -height_m), airsim.Quaternionr()), True
    )
    client.moveByVelocityAsync(0, 0, 0, 0.5).join()


def place(client):
    p = client.simGetGroundTruthKinematics().position
    return np.array([p.x_val, p.y_val, p.z_val])


def seconds(client):
    return client.getMultirotorState().timestamp / 1e9


def track(client, duration_s, step_s=0.1):
    """Return places (n, 3) while a move is under way, in steps of simulated time.

    The world is paused in between.
    """
    begun = seconds(client)
    places = [place(client)]
    while seconds(client) - begun < duration_s:
        client.simContinueForTime(step_s)
        places.append(place(client))
    return np.array(places)


def hausdorff_m(one, other):
    """Return the greatest distance from a point of either track to the nearest of the other."""
    away = np.linalg.norm(one[:, None, :] - other[None, :, :], axis=2)
    return max(away.min(axis=1).max(), away.min(axis=0).max())


def flown(client, points, speed, duration_s):
    """Return the places (n, 2) on a path, and whether its end was reached."""
    client.simPause(True)
    path = [airsim.Vector3r(x, y, -5.0) for x, y in points]
    move = client.moveOnPathAsync(path, speed, 120, FREE, NORTH, -1, 1)
    places = track(client, duration_s)[:, :2]
    client.simPause(False)
    return places, move.get()


def circle(client, folder):
    """A turn of 10 m radius in 40 s: at most 0.60 m from the circle."""
    airborne(client)
    client.moveToPositionAsync(CIRCLE_M, 0, -5, 3, 30, FREE, NORTH).join()
    angle = np.radians(np.arange(0, 361, 5))
    points = CIRCLE_M * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    places, reached = flown(client, points[1:], math.tau * CIRCLE_M / TURN_S, TURN_S + 4)
    angle = np.radians(np.arange(0, 360, 0.5))
    away = hausdorff_m(places, CIRCLE_M * np.stack((np.cos(angle), np.sin(angle)), axis=1))
    print(f"circle: Hausdorff distance {away:.3f} m")
    assert reached and away <= 0.60


def square(client, folder):
    """A square of 5 m at 1.2 m/s: at most 0.45 m from it."""
    airborne(client)
    corners = SIDE_M * np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    places, reached = flown(client, corners[1:], SIDE_MPS, 4 * SIDE_M / SIDE_MPS + 4)
    ideal = np.concatenate([np.linspace(a, b, 100) for a, b in pairwise(corners)])
    away = hausdorff_m(places, ideal)
    print(f"square: Hausdorff distance {away:.3f} m")
    assert reached and away <= 0.45


def takeoff_and_land(client, folder):
    """A takeoff climbs by 2 m, is refused in motion; a landing ends on the floor."""
    client.simPause(False)
    client.reset()
    client.enableApiControl(True)
    client.armDisarm(True)
    assert client.getMultirotorState().landed_state == airsim.LandedState.Landed
    assert client.takeoffAsync().get()
    height_m = -place(client)[2]
    print(f"takeoff: {height_m:.2f} m")
    assert 1.5 <= height_m <= 2.5
    assert client.getMultirotorState().landed_state == airsim.LandedState.Flying
    client.moveByVelocityAsync(2, 0, 0, 1).join()
    try:
        client.takeoffAsync().get()
    except Exception as error:
        assert "already moving with velocity" in str(error), error
    else:
        raise AssertionError("a takeoff began in motion")
    client.moveByVelocityAsync(0, 0, 0, 2).join()
    begun = seconds(client)
    assert client.landAsync().get()
    took_s, height_m = seconds(client) - begun, -place(client)[2]
    print(f"land: {took_s:.1f} s, {height_m:.2f} m")
    assert abs(height_m) < 0.1 and 5 < took_s < 20  # 2 m at 0.2 m/s
    client.armDisarm(False)


def hover(client, folder):
    """A hover ends at once and false, and the vehicle then holds its place."""
    airborne(client)
    assert not client.hoverAsync().get()
    client.simPause(True)
    places = track(client, 3.0)
    client.simPause(False)
    away = np.linalg.norm(places[5:] - places[5], axis=1).max()
    print(f"hover: {away:.3f} m")
    assert away < 0.15


def rotate(client, folder):
    """Turns to headings end within the margin, the shorter way round, without leaving the place."""
    for yaw in (90, -170, 170, 0):
        airborne(client)
        before = place(client)
        assert client.rotateToYawAsync(yaw, 30, 5).get()
        found = airsim.to_eularian_angles(client.simGetGroundTruthKinematics().orientation)[2]
        away = abs(math.remainder(found - math.radians(yaw), math.tau))
        print(
            f"rotateToYaw {yaw}: {math.degrees(away):.2f} degrees, "
            f"{np.linalg.norm(place(client) - before):.3f} m"
        )
        assert away <= math.radians(5) and np.linalg.norm(place(client) - before) < 0.3
    assert client.rotateByYawRateAsync(30, 1).get()


def heights(client, folder):
    """Moves to a height end true within 0.5 m at the speeds of the reference, with less
    overshoot than AirSim's.
    """
    for speed, lowest_m in ((1, 9.62), (3, 10.41), (5, 11.69), (10, 13.13)):
        airborne(client, 2.0)
        client.simPause(True)
        move = client.moveToZAsync(-10, speed, 60, NORTH)
        places = track(client, 8.0 / speed + 6.0, 0.2)
        client.simPause(False)
        assert move.get()
        height_m, highest_m = -place(client)[2], -places[:, 2].min()
        print(f"moveToZ at {speed} m/s: ends at {height_m:.2f} m, highest {highest_m:.2f} m")
        assert abs(height_m - 10) <= 0.5 and highest_m <= max(lowest_m, 10.5)


def path_results(client, folder):
    """Results and errors of moveOnPath by its arguments."""
    airborne(client)
    there = [airsim.Vector3r(6, 0, -5)]
    assert client.moveOnPathAsync([], 3).get()
    assert client.moveOnPathAsync(there, 3, 60, FORWARD, NORTH).get()
    assert np.linalg.norm(place(client) - (6, 0, -5)) <= 0.5
    # Timed out.
    assert not client.moveOnPathAsync([airsim.Vector3r(0, 0, -5)], 3, 0.5, FREE, NORTH).get()
    for arguments, text in (
        ((there, 3, 60, FREE, NORTH, 0, 1), "lookahead distance cannot be 0"),
        ((there, 3, 60, FREE, NORTH, 0.3, 1), "smaller than drone's distance accuracy"),
        ((there, 50, 60, FREE, NORTH, 0.6, 1), "too small for velocity"),
        ((there, 3, 60, FORWARD, airsim.YawMode(True, 10)), "Yaw cannot be specified as rate"),
    ):
        try:
            client.moveOnPathAsync(*arguments).get()
        except Exception as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no error with {text!r}")
    client.moveByVelocityAsync(0, 0, 0, 0.5)
    assert client.client.call("waitOnLastTask")  # of the drone racing lab
    client.moveByVelocityAsync(0, 0, 0, 5)
    assert not client.client.call("waitOnLastTask", 0.2)
    client.simPause(True)
    first = client.moveToPositionAsync(20, 0, -5, 3)
    second = client.moveByVelocityAsync(0, 0, 0, 0.5)
    client.simPause(False)
    assert not first.get() and second.get()


PROGRAMS = {
    function.__name__: function
    for function in (circle, square, takeoff_and_land, hover, rotate, heights, path_results)
}

if __name__ == "__main__":
    program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    client = airsim.MultirotorClient(port=port, timeout_value=300)
    client.confirmConnection()
    PROGRAMS[program](client, folder)
