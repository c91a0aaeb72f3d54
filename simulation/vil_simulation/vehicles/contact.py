"""Collision of rigid bodies with the fixed world: impulses with restitution and Coulomb friction.

Pure functions of states, for every model whose state begins as a rigid body's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final, Literal, NamedTuple

import numpy as np

from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import cross, q_conj, q_exp, q_log, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.matrices import dot, length, product
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.layout import StateLayout
from vil_simulation.vehicles.model import TrueState

UPRIGHT_TOLERANCE: Final = 0.25
SPIN_FACTOR: Final = 0.9

_UP: Final = np.array([0.0, 0.0, 1.0])
_NORTH_AHEAD: Final = np.array([1.0, -1.0, 1.0])


class Collider(NamedTuple):
    """A body that collides.

    Attributes:
        mass_kg: mass. inertia_kgm2: principal moments (3,), body.
        restitution: 0 (stays) to 1 (bounces off as fast). friction: Coulomb's coefficient.
    """

    mass_kg: float
    inertia_kgm2: FloatArray
    restitution: float = 0.55
    friction: float = 0.5

    def packed(self) -> FloatArray:
        """Return the same as the kernel takes it."""
        return np.array(
            (self.mass_kg, *self.inertia_kgm2, self.restitution, self.friction), dtype=np.float64
        )


class WorldContact(NamedTuple):
    """Points at which vehicles touch the world, one row per vehicle.

    Attributes:
        point_world_m: (n, 3). normal_world: (n, 3), unit, out of the obstacle.
        depth_m: (n,), how far the vehicle is inside; below 0 it does not touch.
    """

    point_world_m: FloatArray
    normal_world: FloatArray
    depth_m: FloatArray


def collide(
    x: FloatArray,
    layout: StateLayout,
    body: Collider,
    contact: WorldContact,
    *,
    ground_lock: bool = False,
    levels_rad: float = math.inf,
    compat: Literal["airsim"] | None = None,
    dt_s: float = 0.0,
    compiled: bool = True,
) -> FloatArray:
    """Return states after a collision, a new array (n, dx).

    Vehicles that do not touch, or leave, are unchanged.

    The normal impulse turns the contact's speed into the surface, u_n, into -restitution u_n; then
    the tangential one stops what slides there, as far as friction times the normal impulse allows.
    Kinetic energy never grows. The vehicle is moved out of the obstacle by its depth.

    Args:
        x: states (n, dx).
        layout: their columns, with those of a rigid body.
        body: mass and surface.
        contact: where they touch.
        ground_lock: a vehicle that comes down on its own upper or lower side (within 0.25 of the
            normal's z) does not bounce but lands as in AirSim: level, at rest, ``grounded`` if it
            has that column.
        levels_rad: a vehicle that lands turns level by at most this angle, so that contacts of the
            following steps do the rest, and only then is grounded; one that lies on its head is
            turned at once, as in AirSim.
        compat: ``airsim`` = the original: no inertia in the normal angular impulse, mass in the
            wrong one of the tangential impulses, friction without Coulomb's bound, the lever arm in
            world axes, spin reduced by a tenth.
        dt_s: for compat, its step: the original looks one step ahead.
        compiled: with numba where it is installed, except with compat; False = the reference of
            NumPy.

    Raises:
        KeyError: the state is not a rigid body's; with compat also without acceleration columns.
    """
    kernel = contact_kernel(layout) if compiled and compat is None else None
    if kernel is not None:
        moved = np.array(x, dtype=np.float64, order="C")
        lock = levels_rad if ground_lock else -1.0
        where = (
            np.array(values, dtype=np.float64)
            for values in (contact.normal_world, contact.point_world_m)
        )
        kernel.collide(
            moved, grounded_column(layout), body.packed(), *where, np.array(contact.depth_m), lock
        )
        return moved
    s = layout.split(x)
    if compat == "airsim":
        after, hit = _bounce_as_airsim(s, body, contact, ground_lock, dt_s)
    else:
        after, hit = _bounce(s, body, contact, ground_lock, levels_rad)
    out = x.copy()
    for name, values in after.items():
        out[:, layout[name]] = np.where(hit, values, s[name])
    return out


def lies_flat(q_xyzw: FloatArray, normal_world: FloatArray) -> bool:
    """Return True if a surface is under a vehicle's own upper or lower side.

    Normal within 0.25 of the body's z.
    """
    up = q_rotate(q_xyzw[None], _UP[None])[0]
    return bool(abs(abs(dot(up, normal_world)) - 1.0) <= UPRIGHT_TOLERANCE)


@cache
def _compiled() -> ModuleType | None:
    return import_module("vil_simulation.vehicles.contact_kernel") if has_numba() else None


def contact_kernel(layout: StateLayout) -> ModuleType | None:
    """Return the compiled collisions of states with a layout.

    None = there is no numba, or they begin otherwise.
    """
    return _compiled() if layout.begins_rigid else None


def load_kernel(layout: StateLayout) -> None:
    """Compile what states with a layout need before time counts.

    A vehicle that touches nothing is enough.
    """
    kernel = contact_kernel(layout)
    if kernel is not None:
        x = np.zeros((1, layout.size))
        three = np.zeros((1, 3))
        collide(x, layout, Collider(1.0, np.ones(3)), WorldContact(three, three, np.full(1, -1.0)))
        velocity_changes(x, x, layout, np.zeros(1, np.bool_), np.zeros((1, 6)))
        kernel.add_pushes(np.zeros((1, 6)), 1.0, np.zeros((1, 4)), three, three, three)


def grounded_column(layout: StateLayout) -> int:
    """Return the column that says that a vehicle stands on the ground; -1 = there is none."""
    return layout["grounded"].start if "grounded" in layout else -1


def velocity_changes(
    before: FloatArray,
    x: FloatArray,
    layout: StateLayout,
    which: BoolArray,
    out: FloatArray,
    *,
    compiled: bool = True,
) -> None:
    """Write changes of velocities and body rates of some vehicles into their rows of ``out``.

    N, 6.
    """
    kernel = contact_kernel(layout) if compiled else None
    if kernel is not None:
        kernel.changes(before, x, which, out)
        return
    for columns, name in ((slice(0, 3), "v_world_mps"), (slice(3, 6), "w_body_radps")):
        out[which, columns] = x[which, layout[name]] - before[which, layout[name]]


class CollidingBody(NamedTuple):
    """One body of a collision of two.

    Attributes:
        x: its state, (1, dx), changed in place. layout: columns. body: mass and surface; an
            infinite mass and inertia make it immovable. point_world_m: where it is touched, (3,).
    """

    x: FloatArray
    layout: StateLayout
    body: Collider
    point_world_m: FloatArray


def exchange(first: CollidingBody, second: CollidingBody, normal_world: FloatArray) -> None:
    """Let two bodies that touch bounce off each other by equal and opposite impulses.

    As in :func:`collide` with the mean of both restitutions and frictions, as Unreal combines them.
    Bodies that separate are unchanged.

    Args:
        first: one of them.
        second: the other.
        normal_world: unit, from the second to the first, (3,).
    """
    restitution = 0.5 * (first.body.restitution + second.body.restitution)
    friction = 0.5 * (first.body.friction + second.body.friction)
    sliding = _point_velocity(first) - _point_velocity(second)
    u_n = dot(sliding, normal_world)
    if u_n >= 0.0:
        return
    push = -(1.0 + restitution) * u_n / _common_mobility(first, second, normal_world)
    _push_apart(first, second, push * normal_world)
    sliding = _point_velocity(first) - _point_velocity(second)
    sliding = sliding - dot(sliding, normal_world) * normal_world
    speed = length(sliding)
    if speed > 0.0:
        along = sliding / speed
        drag = min(speed / _common_mobility(first, second, along), friction * push)
        _push_apart(first, second, -drag * along)


def _point_velocity(one: CollidingBody) -> FloatArray:
    """Return the velocity of a body's point, world, (3,)."""
    x = one.x
    layout = one.layout
    spin = q_rotate(x[:, layout["q_world_body"]], x[:, layout["w_body_radps"]])
    velocity: FloatArray = (
        x[:, layout["v_world_mps"]] + cross(spin, one.point_world_m - x[:, layout["p_world_m"]])
    )[0]
    return velocity


def _common_mobility(first: CollidingBody, second: CollidingBody, along: FloatArray) -> float:
    """Return the change of the points' speed apart by a unit impulse along a direction, 1/kg."""
    total = 0.0
    for x, layout, body, point_m in (first, second):
        back = q_conj(x[:, layout["q_world_body"]])
        arm = q_rotate(back, point_m - x[:, layout["p_world_m"]])
        total += float(_mobility(body, arm, q_rotate(back, along[None]))[0, 0])
    return total


def _push_apart(first: CollidingBody, second: CollidingBody, impulse_ns: FloatArray) -> None:
    """Give an impulse (3,) to the first body and its opposite to the second."""
    for (x, layout, body, point_m), signed in ((first, impulse_ns), (second, -impulse_ns)):
        velocity = layout["v_world_mps"]
        rates = layout["w_body_radps"]
        back = q_conj(x[:, layout["q_world_body"]])
        arm = q_rotate(back, point_m - x[:, layout["p_world_m"]])
        _, w = _kick(body, x[:, velocity], x[:, rates], arm, q_rotate(back, signed[None]))
        x[:, velocity] += signed / body.mass_kg
        x[:, rates] = w


def with_contacts(
    truth: TrueState, change: FloatArray, dt_s: float, *, compiled: bool = True
) -> TrueState:
    """Return the truth after a step in which contacts changed velocities too.

    Sensors measure support forces.

    Args:
        truth: of n vehicles, from forces without contacts; its arrays may be changed.
        change: of v_world_mps and w_body_radps by contacts in that step, (n, 6).
        dt_s: the step, over which an impact is spread.
        compiled: with numba where it is installed; False = the reference of NumPy.
    """
    if not change.any():
        return truth
    kernel = _compiled() if compiled else None
    if kernel is not None:
        kernel.add_pushes(
            change,
            dt_s,
            truth.q_world_body,
            truth.a_world_mps2,
            truth.alpha_body_radps2,
            truth.f_body_mps2,
        )
        return truth
    pushed = change[:, :3] / dt_s
    turned = change[:, 3:] / dt_s
    return truth._replace(
        a_world_mps2=truth.a_world_mps2 + pushed,
        alpha_body_radps2=truth.alpha_body_radps2 + turned,
        f_body_mps2=truth.f_body_mps2 + q_rotate(q_conj(truth.q_world_body), pushed),
    )


def _bounce(
    s: Mapping[str, FloatArray],
    body: Collider,
    contact: WorldContact,
    ground_lock: bool,
    levels_rad: float,
) -> tuple[dict[str, FloatArray], BoolArray]:
    """Return new fields and which vehicles are hit, (n, 1).

    Nothing is worked out that landing makes void.
    """
    q = s["q_world_body"]
    v = s["v_world_mps"]
    w = s["w_body_radps"]
    turn = q_to_matrix(q_conj(q))
    in_body = np.stack((contact.normal_world, contact.point_world_m - s["p_world_m"], v), axis=-1)
    normal, arm, v_body = (product(turn, in_body[..., k : k + 1])[..., 0] for k in range(3))
    u_n = _dot(v_body + cross(w, arm), normal)
    hit = (contact.depth_m[:, None] >= 0.0) & (u_n < 0.0)
    after = {"v_world_mps": v, "w_body_radps": w}
    after["p_world_m"] = s["p_world_m"] + contact.depth_m[:, None] * contact.normal_world
    lands = _lands(normal, v) if ground_lock else np.zeros_like(hit)
    if not lands[hit].all():
        after |= _pushed(q, v_body, w, body, _Touch(normal, arm, u_n))
    if ground_lock:
        _land(after, s, lands, levels_rad)
    return after, hit


class _Touch(NamedTuple):
    """Normals and arms (n, 3) of contacts in the bodies' axes.

    The points' speeds along the normals, (n, 1).
    """

    normal: FloatArray
    arm: FloatArray
    u_n: FloatArray


def _pushed(
    q: FloatArray, v_body: FloatArray, w: FloatArray, body: Collider, touch: _Touch
) -> dict[str, FloatArray]:
    """Return velocities and rates after the impulses of :func:`collide`."""
    normal, arm, u_n = touch
    push = -(1.0 + body.restitution) * u_n / _mobility(body, arm, normal)
    v_body, w = _kick(body, v_body, w, arm, push * normal)
    sliding = v_body + cross(w, arm)
    sliding = sliding - _dot(sliding, normal) * normal
    speed = np.linalg.norm(sliding, axis=1, keepdims=True)
    along = np.divide(sliding, speed, out=np.zeros_like(sliding), where=speed > 0.0)
    drag = np.minimum(speed / _mobility(body, arm, along), body.friction * push)
    v_body, w = _kick(body, v_body, w, arm, -drag * along)
    return {"v_world_mps": q_rotate(q, v_body), "w_body_radps": w}


def _bounce_as_airsim(
    s: Mapping[str, FloatArray],
    body: Collider,
    contact: WorldContact,
    ground_lock: bool,
    dt_s: float,
) -> tuple[dict[str, FloatArray], BoolArray]:
    """Return the original's response with its slips, see :func:`collide`."""
    q = s["q_world_body"]
    v = s["v_world_mps"] + dt_s * s["a_world_mps2"]
    w = s["w_body_radps"] + dt_s * s["alpha_body_radps2"]
    normal = q_rotate(q_conj(q), contact.normal_world)
    # Its world is north, east, down and its body forward, right, down: so it reads east as right.
    arm = (contact.point_world_m - s["p_world_m"])[:, [1, 0, 2]] * _NORTH_AHEAD
    u = q_rotate(q_conj(q), v) + cross(w, arm)
    hit = (contact.depth_m[:, None] >= 0.0) & (_dot(s["v_world_mps"], contact.normal_world) < 0.0)
    lands = _lands(normal, v)
    restitution = np.where(lands, 0.0, body.restitution)
    push = -(1.0 + restitution) * _dot(u, normal) / _mobility(body, arm, normal)
    sliding = u - _dot(u, normal) * normal
    speed = np.linalg.norm(sliding, axis=1, keepdims=True)
    along = np.divide(sliding, speed, out=np.zeros_like(sliding), where=speed > 0.0)
    drag = np.where(lands, 1.0, body.friction) * speed / _mobility(body, arm, along)
    v_after = v + contact.normal_world * push / body.mass_kg - q_rotate(q, along) * drag
    w_after = SPIN_FACTOR * (
        w + cross(arm, normal) * push - cross(arm, along) * drag / body.mass_kg
    )
    after = {
        "v_world_mps": v_after,
        "w_body_radps": w_after,
        "p_world_m": s["p_world_m"]
        + contact.normal_world * contact.depth_m[:, None]
        + dt_s * v_after,
        "a_world_mps2": np.zeros_like(v),
        "alpha_body_radps2": np.zeros_like(w),
    }
    if ground_lock:
        _land(after, s, lands)
        bump = -0.5 * body.mass_kg * v
        after["p_world_m"] = np.where(lands, s["p_world_m"], after["p_world_m"])
        after["a_world_mps2"] = np.where(lands, bump, 0.0)
    return after, hit


def _lands(normal_body: FloatArray, v_world: FloatArray) -> BoolArray:
    """Return which vehicles come down on their upper or lower side, (n, 1)."""
    upright = np.abs(np.abs(normal_body[:, 2:]) - 1.0) <= UPRIGHT_TOLERANCE
    lands: BoolArray = upright & (
        -v_world[:, 2:] > np.abs(v_world[:, :2]).max(axis=1, keepdims=True)
    )
    return lands


def _land(
    after: dict[str, FloatArray],
    s: Mapping[str, FloatArray],
    lands: BoolArray,
    levels_rad: float = math.inf,
) -> None:
    """Set landing vehicles at rest, and turn them level by at most an angle.

    Those that are level are grounded.
    """
    q = s["q_world_body"]
    x = q[:, 0:1]
    y = q[:, 1:2]
    z = q[:, 2:3]
    w = q[:, 3:4]
    half_yaw = 0.5 * np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    level = np.concatenate((np.zeros((len(q), 2)), np.sin(half_yaw), np.cos(half_yaw)), axis=1)
    tilt_rad = q_log(q_mul(q_conj(level), q))
    angle = np.sqrt(_dot(tilt_rad, tilt_rad))
    leans = (angle > levels_rad) & (angle < 0.5 * np.pi)
    left = np.divide(angle - levels_rad, angle, out=np.zeros_like(angle), where=leans)
    after["q_world_body"] = np.where(lands, q_mul(level, q_exp(left * tilt_rad)), q)
    for name in ("v_world_mps", "w_body_radps"):
        after[name] = np.where(lands, 0.0, after[name])
    if "grounded" in s:
        after["grounded"] = np.where(lands & ~leans, 1.0, s["grounded"])


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    product: FloatArray = (a * b).sum(axis=1, keepdims=True)
    return product


def _mobility(body: Collider, arm: FloatArray, along: FloatArray) -> FloatArray:
    """Change of the contact's speed along a unit direction by a unit impulse along it, (n, 1).

    1/kg.
    """
    return 1.0 / body.mass_kg + _dot(cross(cross(arm, along) / body.inertia_kgm2, arm), along)


def _kick(
    body: Collider, v_body: FloatArray, w: FloatArray, arm: FloatArray, impulse: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return velocity and rates (n, 3) after an impulse (n, 3) at the arm's end, all in the
    body's axes.
    """
    return v_body + impulse / body.mass_kg, w + cross(arm, impulse) / body.inertia_kgm2
