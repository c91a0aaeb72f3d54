"""Bars of the benchmarks, which ``python -m tests.perf.report`` judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vil_benchmarks.compensate import DELAYS_MS
from vil_benchmarks.poses import CLIENTS
from vil_benchmarks.vehicles import PEER_SIZES

AT_MOST: Final = "at most"
AT_LEAST: Final = "at least"
RATIOS: Final = frozenset({"ratio", "share"})  # of the units


@dataclass(frozen=True, slots=True)
class Bar:
    """Limit of one row, or of two.

    Attributes:
        row: its name, or ``a / b`` or ``a - b`` of two rows of the same bench.
        sense: :data:`AT_MOST` or :data:`AT_LEAST`; empty where the row needs a value and no more.
        quick: ``vil-bridge bench NAME --quick`` measures it.
    """

    bench: str
    row: str
    sense: str = ""
    limit: float = 0.0
    unit: str = "ratio"
    quick: bool = False

    @property
    def text(self) -> str:
        """In words, with the unit."""
        unit = "" if self.unit in RATIOS else f" {self.unit}"
        return f"{self.sense} {self.limit:g}{unit}" if self.sense else f"any{unit}"

    def met(self, value: float) -> bool:
        """Return whether a value reaches it."""
        return {AT_MOST: value <= self.limit, AT_LEAST: value >= self.limit}.get(self.sense, True)


BARS: Final = (
    Bar("stream", "warp_ratio_1024x768_rgb", AT_MOST, 1.15, quick=True),
    Bar("stream", "depth_aware_ratio_1024x768_rgb", AT_MOST, 1.4, quick=True),
    Bar("stream", "overload_age_ms_p95 / overload_age_ms_p95_plain_pub", AT_MOST, 0.12),
    Bar("stream", "overload_age_ms_p95", AT_MOST, 120.0, "ms"),
    Bar("stream", "overload_age_ms_p95_plain_pub", AT_LEAST, 1000.0, "ms"),
    Bar("stream", "sustained_hz_1024x768_rgb_warp_jpeg", AT_LEAST, 100.0, "1/s"),
    Bar("vehicles", "single_step_us", AT_MOST, 1.2, "us"),
    Bar("vehicles", "flightgoggles_euler_steps_per_s", AT_LEAST, 20e6, "1/s"),
    Bar("vehicles", "hover_over_fresh_steps", AT_LEAST, 0.95, quick=True),
    Bar("vehicles", "env_steps_per_cpu_s/gymnasium/150", AT_LEAST, 5e6, "1/s"),
    *(Bar("vehicles", f"kernel_over_crazyflow/{n}", AT_LEAST, 3.0) for n in PEER_SIZES),
    Bar("vehicles", "warm_first_call_s", AT_MOST, 1.0, "s"),
    Bar("start", "help_s", AT_MOST, 0.25, "s"),
    Bar("start", "run_to_first_pose_s", AT_MOST, 1.5, "s"),
    Bar("start", "gymnasium_make_and_step_s", AT_MOST, 1.0, "s"),
    Bar("start", "demo_to_first_picture_s", AT_MOST, 4.0, "s"),
    Bar("airsim", "ratio_to_render", AT_MOST, 1.3),
    Bar("airsim", "ping_us_p50_ratio_to_bare_msgpack", AT_MOST, 2.0),
    Bar("airsim", "eight_clients_fair", AT_LEAST, 0.95),
    *(
        Bar("airsim", row, unit="1/s")
        for row in ("rgb_256x144_hz", "calls_per_s_state", "step_5cams_rgbd_256_hz")
    ),
    Bar("sitl", "rtf_px4_no_camera", AT_LEAST, 10.0),
    Bar("sitl", "rtf_ardupilot_no_camera", AT_LEAST, 5.0),
    Bar("sitl", "rtf_four_ardupilot", AT_LEAST, 1.0),
    Bar("sitl", "rtf_px4_camera_320x240", AT_LEAST, 1.0),
    Bar("sitl", "late_steps_share", AT_MOST, 0.01, "share"),
    Bar("sitl", "px4_exchange_cpu_us", AT_MOST, 250.0, "us"),
    *(Bar("sitl", row, unit="us") for row in ("peer_us_p50", "step_us_p50")),
    Bar("plan", "forest_query_s_p95", AT_MOST, 1.0, "s"),
    Bar("plan", "forest_flown_free", AT_LEAST, 100.0, "flights"),
    Bar("ingest", "ratio_to_motioncapture_20_bodies", AT_MOST, 0.8, quick=True),
    Bar("ingest", "core_share_100_bodies_2_skeletons_1khz", AT_MOST, 0.12, "cores"),
    Bar("ingest", "passed_on_share", AT_LEAST, 0.995),
    Bar("ingest", "received_to_tracks_us_p50", AT_MOST, 80.0, "us"),
    *(
        Bar("ingest", f"us_per_frame_{load}", unit="us")
        for load in ("1_bodies", "20_bodies", "100_bodies", "100_bodies_2_skeletons")
    ),
    Bar("render", "ratio_rgb", AT_MOST, 1.3, quick=True),
    Bar("render", "ratio_rgb_baked", AT_MOST, 1.4),
    Bar("render", "ratio_five_modalities", AT_MOST, 1.7, quick=True),
    Bar("render", "ratio_medium", AT_MOST, 2.6, quick=True),
    Bar("render", "ratio_pbr_sun", AT_MOST, 4.2, quick=True),
    Bar("render", "ratio_high", AT_MOST, 5.6, quick=True),
    Bar("render", "ratio_cameras_8", AT_MOST, 1.05, quick=True),
    Bar("render", "ratio_cameras_8_160x120", AT_MOST, 0.7, quick=True),
    Bar("render", "cpu_outside_gl_ms_per_camera", AT_MOST, 1.5, "ms"),
    Bar("render", "us_per_moving_prop", AT_MOST, 2.0, "us"),
    Bar("render", "ratio_skinned_human", AT_MOST, 0.5, quick=True),
    Bar("render", "ratio_1000_nodes", AT_MOST, 0.6, quick=True),
    Bar("render", "ratio_rays_100k", AT_MOST, 1.3, quick=True),
    Bar("render", "ratio_to_panda3d_rgb", AT_MOST, 1.3),
    Bar("render", "speedup_over_pyrender_rgb_depth", AT_LEAST, 5.0),
    Bar("render", "loop_delay_added_ms_p99", AT_MOST, 5.0, "ms"),
    Bar("path", "image_added_ratio_1024x768_rgb", AT_MOST, 1.2),
    Bar("path", "image_cpu_ratio_1024x768_rgb", AT_MOST, 1.15),
    Bar("path", "relay_own_share_1024x768_rgb", AT_MOST, 0.1),
    Bar("path", "pose_added_ms_p50_20_bodies", AT_MOST, 0.4, "ms"),
    Bar("path", "overload_age_ms_p95", AT_MOST, 80.0, "ms"),
    *(Bar("poses", f"added_ms_p50/{c.name}", AT_MOST, 0.5, "ms") for c in CLIENTS if not c.polls),
    *(
        Bar("poses", f"read_share/{c.name}", AT_LEAST, 0.995, "share")
        for c in CLIENTS
        if not c.polls
    ),
    Bar("poses", "read_share/vrpn/motioncapture", unit="share"),
    Bar("klt", "hall_tracked", AT_LEAST, 0.97, "share"),
    Bar("klt", "warehouse_inliers", AT_LEAST, 0.80, "share"),
    Bar("klt", "hall_median_px", AT_MOST, 0.06, "px"),
    Bar("klt", "warehouse_median_px", AT_MOST, 0.25, "px"),
    Bar("compensate", "broad_07/plane/56ms/none / broad_07/plane/56ms/homography", AT_LEAST, 8.0),
    Bar("compensate", "broad_12/plane/56ms/homography", AT_MOST, 1.2, "px"),
    Bar("compensate", "broad_12/plane/280ms/homography", AT_MOST, 1.8, "px"),
    Bar("compensate", "simulated/normal/56ms/predict_depth", AT_MOST, 2.0, "px"),
    Bar("compensate", "simulated_without_noise/normal/56ms/predict_depth", AT_MOST, 0.1, "px"),
    *(
        Bar(
            "compensate",
            f"{name}/mixed/{ms}ms/{method} - {name}/plane/{ms}ms/homography",
            AT_MOST,
            0.3,
            "px",
        )
        for name in ("broad_12", "broad_07")
        for ms in DELAYS_MS
        for method in ("depth", "predict_depth")
    ),
)
