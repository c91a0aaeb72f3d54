"""Ray draws the same bytes, sends what a machine cannot write itself, and a killed actor's shard
is done again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.common import ROOT, needs_gl
from tests.support.offline import room_file

pytestmark = pytest.mark.process


_OVER_RAY = """
import os
import signal
import sys
from pathlib import Path

import ray

ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
print("started", flush=True)
from vil_simulation.dataset.executors import _RayWorker
from vil_simulation.dataset.dataset import render_dataset
from vil_simulation.dataset.frames import sequences_of
from vil_simulation.dataset.plan import DatasetPlan

scene, out = sys.argv[1], Path(sys.argv[2])
camera = {"width_px": 64, "height_px": 48, "modalities": ["gray", "flow"]}
plan = DatasetPlan.model_validate({"scenes": [scene], "frames": 6, "cameras": {"front": camera}})


def parents(pid):
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_a_painter(done, whole):
    if done != 1:
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
                if title.startswith(b"ray::_RayWorker") and os.getpid() in parents(int(entry.name)):
                    os.kill(int(entry.name), signal.SIGKILL)
                    print("killed", flush=True)
                    return
            except OSError:
                continue  # it ended meanwhile


over_ray = render_dataset(plan, out / "ray", workers=2, ray="auto", shard_frames=1,
    on_progress=kill_a_painter)
alone = render_dataset(plan, out / "alone")
assert over_ray.sha256 == alone.sha256 and over_ray.drawn == 6

(sequence,) = sequences_of(plan)
(shard,) = sequence.shards(25)
far = ray.remote(_RayWorker).remote(plan, Path("/nowhere/to/be/seen"), "landmark")
sent = ray.get(far.draw.remote(shard)).files
assert len(sent) == 12
assert all((out / "alone" / "room" / name).read_bytes() == data for name, data in sent.items())
ray.shutdown()
print("equal", flush=True)
"""


@pytest.mark.long
@pytest.mark.gl
def test_over_ray_the_bytes_are_the_same(tmp_path: Path) -> None:
    needs_gl()
    if find_spec("ray") is None:
        pytest.skip("Ray is absent: pip install '.[ray]'")
    # Ray keeps a token in the home folder, and its sockets want a short path.
    env = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", _OVER_RAY, str(room_file(tmp_path)), str(tmp_path)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False
        )
    except subprocess.TimeoutExpired as late:
        if b"started" in (late.stdout or b""):
            raise
        pytest.skip("a local Ray did not start within 280 s here")
    # Ray tells of deaths.
    told = [line for line in done.stdout.splitlines() if line in ("started", "killed", "equal")]
    assert done.returncode == 0 and told == ["started", "killed", "equal"], done.stderr[-2000:]
