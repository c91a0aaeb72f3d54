"""A live map and a twin on the page.

Two simulated vehicles, one of them with a depth camera, in a drawn scene.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import cv2
import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser

from tests.browser.rig import LIMIT_MS, Watched, needs_page, watched
from tests.browser.test_accessible import complaints
from tests.support.common import needs_gl, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from vil_simulation.demo.child_processes import free_ports

pytestmark = [pytest.mark.browser, pytest.mark.gl]

CONFIG = """
version: 1
rooms: {{hall: {{}}}}
sources:
  sim:
    type: simulated
    room: hall
    step_hz: 240
    rate_hz: 60
    vehicles:
      drone: {{model: flightgoggles, p_m: [-1, -1, 1.2]}}
      copy: {{model: flightgoggles, p_m: [-1, 0, 1.2]}}
actors:
  drone: {{kind: vehicle, source: sim, subject: drone}}
  drone_sim: {{kind: vehicle, source: sim, subject: copy}}
twins: {{pair: {{vehicle: drone, twin: drone_sim, alarm_m: 0.5}}}}
renderers: {{drawn: {{type: flightgoggles, pose_port: {poses}, image_port: {images}}}}}
cameras:
  front: {{actor: drone, renderer: drawn, width_px: 160, height_px: 120, rate_hz: 5,
      modalities: [rgb, depth32]}}
maps: {{room: {{cameras: [front], min_m: [-4, -4, -0.5], max_m: [4, 4, 3]}}}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: {http}}}
"""
PATIENCE_S = 180.0
MODEL_S = 300.0
"""A process of low priority makes the scene's model for pages.

On a busy computer it takes its time.
"""
VOXEL_HUE = 17
"""Of OpenCV: half the degrees of `--world-map`."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs_page()
    needs_gl()
    poses, images, http = free_ports(3, socket.SOCK_STREAM)
    path = tmp_path_factory.mktemp("map") / "bridge.yaml"
    path.write_text(CONFIG.format(poses=poses, images=images, http=http))
    ports = ("--input-port", poses, "--output-port", images)
    with (
        Program(*VIL_BRIDGE, "run", path),
        Program(*VIL_BRIDGE, "renderer", *ports, "--scene", "lab"),
    ):
        address = f"http://127.0.0.1:{http}/"
        wait_until(lambda: answers(address), PATIENCE_S)
        yield address


def answers(address: str) -> bool:
    """Return whether the bridge serves and its map has begun."""
    try:
        return bool(httpx.get(f"{address}api/v1/maps/room", timeout=PATIENCE_S).json()["occupied"])
    except httpx.TransportError:
        return False


def share_of_voxels(page: Watched) -> float:
    """Return the share of the world's picture that has the hue of voxels."""
    png = page.page.locator("#world-view canvas").first.screenshot()
    picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    hue, saturation, _ = cv2.split(cv2.cvtColor(picture, cv2.COLOR_BGR2HSV))
    return float(((abs(hue.astype(int) - VOXEL_HUE) <= 3) & (saturation > 100)).mean())


@pytest.fixture
def page(url: str, browser: Browser) -> Iterator[Watched]:
    """The world, which is drawn in software, is out of sight at first."""
    with watched(browser, url, viewport={"width": 640, "height": 240}) as seen:
        yield seen
        seen.assert_at_peace(url)


def test_a_twin_a_metre_away_alarms_and_its_distance_is_drawn(page: Watched) -> None:
    page.until("() => /alarm/.test(document.querySelector('#twin-table tbody')?.innerText)")
    text = page.page.locator("#twin-table tbody").inner_text()
    assert "drone_sim" in text and "1.000" in text
    page.scroll_to("#twin-charts")
    page.until("() => document.querySelectorAll('#twin-charts canvas').length === 1")
    assert complaints(page.page) == []


def test_occupied_voxels_are_in_the_world_until_maps_are_switched_off(
    url: str, page: Watched
) -> None:
    page.until(
        "() => parseInt(document.querySelectorAll('#maps tbody "
        "td')[3].innerText.replace(',', '')) > 200"
    )
    wait_until(lambda: httpx.get(f"{url}api/v1/scene", timeout=PATIENCE_S).json()["model"], MODEL_S)
    page.page.set_viewport_size({"width": 640, "height": 480})
    page.scroll_to("#world-view")
    # Once it is loaded.
    page.page.get_by_role("button", name="Scenery", exact=True).click(timeout=2 * LIMIT_MS)
    wait_until(lambda: share_of_voxels(page) > 0.02, PATIENCE_S)
    page.page.get_by_role("button", name="Maps", exact=True).click()
    wait_until(lambda: share_of_voxels(page) < 0.002, PATIENCE_S)
