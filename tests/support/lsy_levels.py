"""Levels of lsy_drone_racing as that project ships them."""

from __future__ import annotations

from pathlib import Path

GATES = [
    ((0.5, 0.25, 0.7), -0.78),
    ((1.05, 0.75, 1.2), 2.35),
    ((-1.0, -0.25, 0.7), 3.14),
    ((0.0, -0.75, 1.2), 0.0),
]
POLES = [(0.0, 0.75, 1.55), (1.0, 0.25, 1.55), (-1.5, -0.25, 1.55), (-0.5, -0.75, 1.55)]

HEAD = """\
# a comment
[controller]
file = "state_controller.py" # another
[deploy]
check_race_track = true
[[deploy.drones]]
id = 91
channel = 100
drone_model = "cf21B_500"
[sim]
physics = "first_principles"
camera_view = [5.0, 180.0, -25.0, 0.0, 0.0, 0.0]
freq = 500
render = false
[env]
id = "DroneRacing-v0"
seed = "random"
freq = 50
sensor_range = 0.7
control_mode = "state"
"""


def uniform(name: str, low: object, high: object) -> str:
    table = f"env.randomizations.{name}"
    return f'[{table}]\nfn = "uniform"\n[{table}.kwargs]\nminval = {low}\nmaxval = {high}\n'


def level_text(level: int) -> str:
    """Return a file as the project ships it, levels 0 to 3."""
    text = f"{HEAD}[env.track]\nrandomize = {str(level == 3).lower()}\ngate_order = [1, 2, 3, 4]\n"
    for p_m, yaw in GATES:
        text += f"[[env.track.gates]]\npos = {list(p_m)}\nrpy = [0.0, 0.0, {yaw}]\n"
    text += "".join(f"[[env.track.obstacles]]\npos = {list(p_m)}\n" for p_m in POLES)
    text += (
        "[[env.track.drones]]\npos = [-1.5, 0.75, 0.01]\nrpy = [0, 0, 0]\nvel = [0, 0, 0]\n"
        "ang_vel = [0, 0, 0]\n"
    )
    text += (
        "[env.track.safety_limits]\npos_limit_low = [-2.5, -1.5, -1e-3]\npos_limit_high = "
        "[2.5, 1.5, 2.0]\n"
    )
    text += '[env.disturbances.action]\nfn = "normal"\nscale = 0.001\n'
    if level >= 1:
        text += uniform("drone_pos", [-0.1, -0.1, 0.0], [0.1, 0.1, 0.02])
        text += uniform("drone_rpy", [-0.1, -0.1, -0.1], [0.1, 0.1, 0.1])
        text += uniform("drone_mass", -0.005, 0.005)
    if level >= 2:
        text += uniform("gate_pos", [-0.15, -0.15, -0.1], [0.15, 0.15, 0.1])
        text += uniform("gate_rpy", [-0.05, -0.1, -0.2], [0.05, 0.1, 0.2])
        text += uniform("obstacle_pos", [-0.15, -0.15, -0.05], [0.15, 0.15, 0.05])
    return text


def level_file(tmp_path: Path, level: int = 2, old: str = "", new: str = "") -> Path:
    path = tmp_path / f"level{level}.toml"
    assert old in level_text(level)
    path.write_text(level_text(level).replace(old, new, 1), encoding="utf-8")
    return path
