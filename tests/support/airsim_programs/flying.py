"""Steps that programs for a multirotor share; with AirSim's own client."""

import math

import airsim


def connected(port):
    client = airsim.MultirotorClient(port=port)
    client.confirmConnection()
    client.reset()
    client.enableApiControl(True)
    assert client.isApiControlEnabled()
    return client


def position(client, name=""):
    return client.getMultirotorState(name).kinematics_estimated.position


def near(client, x, y, z, within=0.6, name=""):
    p = position(client, name)
    away = math.dist((p.x_val, p.y_val, p.z_val), (x, y, z))
    assert away < within, f"{(p.x_val, p.y_val, p.z_val)} is {away:.2f} m from {(x, y, z)}"
