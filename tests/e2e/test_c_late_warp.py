"""The late warp of the receiver in C.

The poses and maps of client_warp.py, and its pictures through a live stream.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.support import onboard as rig
from tests.support.c_programs import CHECKED, compile_c
from tests.support.common import wait_until
from tests.support.onboard import T0_NS
from tests.support.programs import Program
from tests.support.stream_rig import StreamRig
from tests.support.turning_vehicle import RATE_RADPS, Turning, camera_x
from vil_bridge import client
from vil_bridge.client import MeasuredBody
from vil_bridge.client_warp import ImuRing, LateWarper
from vil_bridge.core.types import FloatArray

pytestmark = pytest.mark.process

MS: Final = 1_000_000
LENSES: Final[dict[str, dict[str, Any] | None]] = {
    "ideal": None,
    "plumb_bob": {"model": "plumb_bob", "coefficients": [-0.28, 0.07, 1e-3, -5e-4, 0.01]},
    "equidistant": {"model": "equidistant", "coefficients": [-0.01, 0.02, -0.01, 0.002]},
}

ONE_WARP: Final = """
#include "vil_receiver.h"
static vil_imu imu;
static double number(void) {
    double value;
    if (scanf("%lf", &value) != 1) exit(2);
    return value;
}
static int64_t whole(void) {
    int64_t value;
    if (scanf("%" SCNd64, &value) != 1) exit(2);
    return value;
}
static void numbers(double *values, int count) {
    for (int i = 0; i < count; i++) values[i] = number();
}
static void print(const double *values, int count) {
    for (int i = 0; i < count; i++) printf("%.17g ", values[i]);
    puts("");
}
int main(void) {
    vil_motion motion;
    vil_camera camera;
    vil_plane plane;
    vil_pose T_body_imu, shown, now;
    vil_body body;
    int64_t age_ns, samples = whole();
    vil_imu_open(&imu);
    while (samples--) {
        double wf[6];
        int64_t t_ns = whole();
        numbers(wf, 6);
        vil_imu_append(&imu, t_ns, wf, wf + 3);
    }
    motion.measured.t_ns = whole();
    numbers(motion.measured.T_world_body.p_m, 3);
    numbers(motion.measured.T_world_body.q_xyzw, 4);
    numbers(motion.measured.v_world_mps, 3);
    numbers(motion.measured.w_body_radps, 3);
    numbers(motion.gyro_bias_radps, 3);
    numbers(motion.accel_bias_mps2, 3);
    numbers(motion.gyro_scale, 3);
    motion.imu_late_ns = whole();
    numbers(shown.p_m, 3);
    numbers(shown.q_xyzw, 4);
    numbers(&plane.d_m, 1);
    numbers(plane.normal, 3);
    char text[4096];
    while (fgets(text, sizeof text, stdin) && text[0] != '{') continue;
    vil_json info = vil__span(text, text + strlen(text));
    if (vil__described(info, &camera) || vil__placed(vil__member(info, "T_body_imu"), &T_body_imu))
        return 3;
    const char *problem = vil_move(&imu, &motion, &T_body_imu, whole(), &body, &age_ns);
    printf("%s\\n", problem ? problem : "moved");
    if (!problem) {
        size_t nodes = 2 * (size_t)(vil_grid_rows(&camera) * vil_grid_columns(&camera));
        double *rays = (double *)malloc(2 * nodes * sizeof *rays), *map = rays + nodes;
        now = vil__after(&body.T_world_body, &camera.T_body_camera);
        vil_grid_rays(&camera, rays);
        vil_grid_map(&camera, rays, &shown, &now, &plane, map);
        printf("%" PRId64 "\\n", age_ns);
        print(now.p_m, 3);
        print(now.q_xyzw, 4);
        print(body.v_world_mps, 3);
        print(body.w_body_radps, 3);
        print(map, (int)nodes);
        free(rays);
    }
    vil_imu_close(&imu);
    return 0;
}
"""

FED: Final = """
#include "vil_receiver.h"
static vil_imu imu;
static vil_receiver receiver;
int main(int argc, char **argv) {
    vil_frame frame;
    int got = 0, fed = argc > 2;
    if (vil_open(&receiver, argv[1], "front", "compensated")) return 2;
    vil_imu_open(&imu);
    vil_use_imu(&receiver, &imu);
    while (got >= 0 && receiver.delivered < 30) {
        const double w[3] = {0.01, 0.0, 0.5}, f[3] = {0.0, 0.2, 9.80665};
        if (fed) vil_imu_append(&imu, vil_now_ns(), w, f);
        got = vil_next(&receiver, &frame, 2);
        if (!frame.pixels) continue;
        uint64_t sum = 0;
        for (int i = 0; i < frame.width * frame.height; i++)
            sum += frame.pixels[i] * (uint64_t)(i % 251);
        printf("%d %" PRId64 " %" PRId64 " %.9f %.9f %.9f %.9f %.9f %" PRIu64 " %s\\n",
            frame.moved, frame.t_ns,
               frame.t_bridge_ns, frame.q_xyzw[0], frame.q_xyzw[1], frame.q_xyzw[2],
                   frame.q_xyzw[3],
               frame.motion.measured.w_body_radps[2], sum, frame.problem ? frame.problem : "-");
        fflush(stdout);
    }
    vil_close(&receiver);
    vil_imu_close(&imu);
    return 0;
}
"""


def compiled(source: str, folder: Path, *options: str) -> Path:
    path = folder / "program.c"
    path.write_text(source)
    return compile_c(path, folder / "program", "-std=c99", *options)


@pytest.fixture(scope="module")
def one_warp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ONE_WARP, tmp_path_factory.mktemp("c"), *CHECKED)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(FED, tmp_path_factory.mktemp("c"), *CHECKED)


def shaken(
    rng: np.random.Generator, first_ns: int, last_ns: int, step_ns: int
) -> list[tuple[int, FloatArray]]:
    """Samples (rate, force) of a vehicle that is shaken, at uneven times."""
    times = np.arange(first_ns, last_ns, step_ns) + rng.integers(
        0, step_ns // 2, len(range(first_ns, last_ns, step_ns))
    )
    wf = np.concatenate(
        (rng.normal(0, 3, (len(times), 3)), rng.normal((0, 0, 9.8), 4, (len(times), 3))), axis=1
    )
    return list(zip(times.tolist(), wf, strict=True))


def case(rng: np.random.Generator, lens: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """Everything that a late warp needs, of a random flight."""
    body = rig.truth(0)
    made: dict[str, Any] = {
        "samples": shaken(rng, T0_NS - 50 * MS, T0_NS + 90 * MS, 2 * MS),
        "late_ns": int(rng.integers(-5 * MS, 5 * MS)),
        "p_m": body.T_world_body.p_m,
        "q_xyzw": body.T_world_body.q_xyzw,
        "v_mps": rng.normal(0, 2, 3),
        "w_radps": rng.normal(0, 1, 3),
        "gyro_bias": rng.normal(0, 0.05, 3),
        "accel_bias": rng.normal(0, 0.2, 3),
        "gyro_scale": rng.normal(0, 0.02, 3),
        "normal": np.array([0.1, -0.2, 1.0]) / np.linalg.norm([0.1, -0.2, 1.0]),
        "d_m": 2.5,
        "t_ns": T0_NS + int(rng.integers(20 * MS, 80 * MS)),
        "info": {
            **rig.INFO,
            "width": 322,
            "height": 241,
            "fx": 200.0,
            "fy": 201.0,
            "cx": 160.2,
            "distortion": lens,
        },
    }
    return made | changes


def by_python(given: dict[str, Any]) -> Any:
    ring = ImuRing()
    for t_ns, wf in given["samples"]:
        ring.append(t_ns, wf[:3], wf[3:])
    measured = MeasuredBody(
        T0_NS, client.Pose(given["p_m"], given["q_xyzw"]), given["v_mps"], given["w_radps"]
    )
    motion = client.Motion(
        np.zeros(3),
        np.zeros(3),
        given["gyro_bias"],
        given["accel_bias"],
        given["late_ns"],
        None,
        measured,
        given["gyro_scale"],
    )
    frame = rig.frame(np.zeros((241, 322), np.uint8), motion=motion)
    frame.compensation.update(d_m=given["d_m"], normal=given["normal"].tolist())
    return LateWarper(ring).warp(frame, given["info"], given["t_ns"], constant_rate=False)


def by_c(program: Path, given: dict[str, Any]) -> list[str]:
    shown = rig.frame(np.zeros((241, 322), np.uint8)).pose_display
    assert shown is not None
    lines = [str(len(given["samples"]))]
    lines += [f"{t_ns} {_words(wf)}" for t_ns, wf in given["samples"]]
    lines.append(
        f"{T0_NS} " + _words(*(given[key] for key in ("p_m", "q_xyzw", "v_mps", "w_radps")))
    )
    lines.append(
        f"{_words(given['gyro_bias'], given['accel_bias'], given['gyro_scale'])} {given['late_ns']}"
    )
    lines += [_words(shown.p_m, shown.q_xyzw), _words([given["d_m"]], given["normal"])]
    lines += [json.dumps(given["info"]), str(given["t_ns"])]
    done = subprocess.run(
        [program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _words(*arrays: Any) -> str:
    return " ".join(f"{value:.17g}" for array in arrays for value in array)


def bursts(rng: np.random.Generator, first_ns: int, last_ns: int) -> list[tuple[int, FloatArray]]:
    """Samples of that vehicle in pairs, 20 us apart every 12 ms."""
    firsts = shaken(rng, first_ns, last_ns, 12 * MS)
    return [(t_ns + k * MS // 50, wf + 0.01 * k) for t_ns, wf in firsts for k in range(2)]


@pytest.mark.parametrize("lens", LENSES)
def test_poses_and_maps_are_those_of_python(lens: str, one_warp: Path) -> None:
    rng = np.random.default_rng(len(lens))
    pairs = {
        "samples": bursts(rng, T0_NS - 50 * MS, T0_NS + 60 * MS),
        "t_ns": T0_NS + 70 * MS,
        "late_ns": 0,
    }
    beyond = {"t_ns": T0_NS + 110 * MS, "late_ns": 0}
    for changes in ({}, {}, {"t_ns": T0_NS}, beyond, {"v_mps": np.full(3, 5.0)}, pairs):
        given = case(rng, LENSES[lens], **changes)
        late, lines = by_python(given), by_c(one_warp, given)
        assert (
            late.motion == "inertial" and lines[0] == "moved" and int(lines[1]) == late.imu_age_ns
        )
        p_m, q_xyzw, v_mps, w_radps, map_px = (np.array(line.split(), float) for line in lines[2:])
        np.testing.assert_allclose(p_m, late.pose_display.p_m, atol=1e-6, rtol=0)
        np.testing.assert_allclose(q_xyzw, late.pose_display.q_xyzw, atol=1e-6, rtol=0)
        np.testing.assert_allclose(v_mps, late.v_world_mps, atol=1e-6, rtol=0)
        np.testing.assert_allclose(w_radps, late.w_body_radps, atol=1e-6, rtol=0)
        np.testing.assert_allclose(map_px.reshape(late.grid.shape), late.grid, atol=1e-6, rtol=0)
        assert (late.grid > -1e6).all(axis=-1).mean() > 0.5


def test_it_falls_back_where_python_does(one_warp: Path) -> None:
    rng = np.random.default_rng(3)
    gap = [s for s in case(rng, None)["samples"] if not T0_NS + 10 * MS < s[0] < T0_NS + 60 * MS]
    long = shaken(rng, T0_NS - 50 * MS, T0_NS + 600 * MS, 2 * MS)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("the bridge measured the vehicle", {"samples": long, "t_ns": T0_NS + 501 * MS}),
        ("do not reach back", {"samples": []}),
        ("do not reach back", {"samples": shaken(rng, T0_NS + 10 * MS, T0_NS + 90 * MS, 2 * MS)}),
        ("old", {"t_ns": T0_NS + 150 * MS}),
        ("gap", {"samples": gap, "t_ns": T0_NS + 80 * MS, "late_ns": 0}),
    ]
    for said, changes in cases:
        given = case(rng, None, **changes)
        late = by_python(given)
        (line,) = by_c(one_warp, given)
        assert late.motion == "none" and said in late.problem and said in line


def test_its_pictures_show_the_moment_of_the_call(fed: Path) -> None:
    """A turning vehicle of which the bridge foretells nothing right.

    Its camera's picture turns with the samples.
    """
    vehicle = Turning()
    with StreamRig() as stream, Program(fed, stream.endpoint, "fed", split=True) as reader:
        ids = itertools.count(1)

        def ended() -> bool:
            vehicle.offer(stream, next(ids))
            return reader.poll() is not None

        wait_until(ended, period_s=0.03)
        lines = [line.split(maxsplit=9) for line in reader.text().splitlines()]
    moved = [line for line in lines if line[0] == "1"]
    assert len(moved) > 10
    stamps = [int(line[1]) for line in lines]
    assert stamps == sorted(set(stamps))
    for line in moved:
        turned = camera_x(np.array(line[3:7], float)) - vehicle.camera_x(int(line[2]))
        assert np.linalg.norm(turned) < 1e-3, (
            "by the bridge's clock, in which the vehicle was measured"
        )
        assert float(line[7]) == RATE_RADPS
    assert len({line[8] for line in moved}) > 5, "pictures that were moved differ"


def test_without_samples_it_hands_out_the_bridges_pictures(fed: Path) -> None:
    vehicle = Turning()
    with StreamRig() as stream, Program(fed, stream.endpoint, split=True) as reader:
        ids = itertools.count(1)

        def ended() -> bool:
            vehicle.offer(stream, next(ids))
            return reader.poll() is not None

        wait_until(ended, period_s=0.03)
        lines = [line.split(maxsplit=9) for line in reader.text().splitlines()]
    assert {line[0] for line in lines} == {"0"} and len({line[8] for line in lines}) == 1
    assert {line[9] for line in lines} == {"inertial samples do not reach back to the picture"}
