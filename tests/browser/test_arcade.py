"""A person's race: the real verb, its renderer, headless Chromium, and keys by script."""

from __future__ import annotations

import csv
import io
import re
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.rig import LIMIT_MS, Watched, needs_page, watched
from tests.browser.test_accessible import complaints
from tests.support.common import needs_gl, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.browser

COURSE = """
course: straight
start: {p_m: [0, 0, 2], yaw_deg: 90}
rules: {clock: motion, timeout_s: 600}
laps: 1
gates:
  - {name: First, p_m: [0, 3, 2], yaw_deg: 90, width_m: 4, height_m: 3}
  - {name: Second, p_m: [0, 6, 2], yaw_deg: 90, width_m: 4, height_m: 3}
  - {name: Last, p_m: [0, 9, 2], yaw_deg: 90, width_m: 4, height_m: 3}
"""
PATIENCE_S = 180.0
FLIGHT_MS = 4 * LIMIT_MS
"""On a busy machine a vehicle hovers between commands that come late."""
# Colours of the picture, and whether the marks of the gates lie over it.
SEEN = """() => {
  const [view, marks] = document.querySelectorAll('#screen canvas');
  const colours = new Set(), {data} = view.getContext('2d').getImageData(0, 0, view.width,
      view.height);
  for (let i = 0; i < data.length; i += 4000)
      colours.add(data[i] >> 5 << 6 | data[i + 1] >> 5 << 3 | data[i + 2] >> 5);
  const drawn = marks.getContext('2d').getImageData(0, 0, marks.width, marks.height).data;
  let green = 0;
  for (let i = 0; i < drawn.length; i += 4)
      green += drawn[i + 3] > 200 && drawn[i + 1] > drawn[i] + 80 ? 1 : 0;
  return [colours.size, green];
}"""
# A gamepad of the test's, as browsers give it.
GAMEPAD = """
  const buttons = Array.from({length: 17}, () => ({pressed: false}));
  window.pad = {id: "Test pad", connected: true, axes: [0, 0, 0, 0], buttons};
  Object.defineProperty(navigator, "getGamepads", {value: () => [window.pad]});
"""
CLOCK = "() => parseFloat(document.querySelector('.hud-clock').textContent)"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a bridge that the verb started."""
    needs_page()
    needs_gl()
    course = tmp_path_factory.mktemp("arcade") / "straight.yaml"
    course.write_text(COURSE)
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(*VIL_BRIDGE, "race", course, "--pilot", "keyboard", "--http-port", port) as bridge:
        assert (
            bridge.await_text(r"the keyboard on  (http\S+)/arcade", PATIENCE_S).group(1)
            == f"http://127.0.0.1:{port}"
        )
        bridge.await_text("front: pictures flow", 2 * PATIENCE_S)
        yield f"http://127.0.0.1:{port}/"
        assert bridge.end(limit_s=PATIENCE_S) == 0, bridge.text()


@pytest.fixture
def arcade(url: str, browser: Browser) -> Iterator[Watched]:
    with watched(browser, f"{url}arcade", viewport={"width": 1000, "height": 760}) as seen:
        seen.until("() => !document.getElementById('start').disabled")
        yield seen
        seen.assert_at_peace(url)


def with_a_gamepad(context: BrowserContext) -> None:
    context.add_init_script(GAMEPAD)


def start(page: Page) -> None:
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".hud-middle")).to_have_text("3", timeout=LIMIT_MS)
    expect(page.locator(".hud-middle")).to_have_text("", timeout=LIMIT_MS)


def vehicle(url: str) -> dict[str, object]:
    found: dict[str, object] = (
        httpx.get(f"{url}api/v1/vehicles/drone", timeout=PATIENCE_S).raise_for_status().json()
    )
    return found


def test_a_person_flies_a_race_by_keys(arcade: Watched, url: str, tmp_path: Path) -> None:
    page = arcade.page
    arcade.until(f"() => (([colours, green]) => colours > 5 && green > 200)(({SEEN})())")
    page.get_by_label("Your name").fill("Ada")
    start(page)
    expect(page.locator(".hud-place")).to_have_text(re.compile("lap 1 of 1 .* gate 1 of 3"))
    page.keyboard.down("w")
    expect(page.locator(".hud-place")).to_have_text(re.compile("gate [23] of 3"), timeout=FLIGHT_MS)
    assert page.evaluate(CLOCK) > 0.0
    expect(page.locator("#result")).to_have_text(
        re.compile(r"^Finished in \d+\.\d\d s\.$"), timeout=FLIGHT_MS
    )
    page.keyboard.up("w")
    expect(page.locator("#leaders tbody")).to_have_text(re.compile("1.Ada ◂ you"))
    expect(page.locator("#leaders-of")).to_have_text("straight, 1 lap")
    with page.expect_download(timeout=LIMIT_MS) as download:
        page.get_by_role("link", name="Lap 1 as CSV").click()
    file = tmp_path / "lap.csv"
    download.value.save_as(file)
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    (result,) = httpx.get(f"{url}api/v1/race/results", timeout=PATIENCE_S).raise_for_status().json()
    assert (result["pilot"], result["outcome"], result["laps"]) == ("Ada", "finished", [1])
    times = [float(row["elapsed_time"]) for row in rows]
    assert times[0] < 0.1 and times[-1] == pytest.approx(result["race_s"], abs=0.05)
    assert all(before < after for before, after in pairwise(times))
    assert float(rows[0]["drone_y"]) < 0.5 and float(rows[-1]["drone_y"]) == pytest.approx(
        9.0, abs=0.3
    )
    assert max(float(row["drone_velocity_linear_y"]) for row in rows) > 1.0


@pytest.mark.long
def test_a_gamepad_starts_a_race_and_flies_it(url: str, browser: Browser) -> None:
    with watched(browser, f"{url}arcade", with_a_gamepad) as seen:
        seen.until("() => !document.getElementById('start').disabled")
        expect(seen.page.locator("#pad")).to_have_text("Test pad", timeout=LIMIT_MS)
        seen.page.get_by_label("Course").select_option("straight")
        expect(seen.page.locator("#leaders-of")).to_have_text("straight, 1 lap", timeout=LIMIT_MS)
        seen.page.locator("#screen").focus()
        seen.page.evaluate("pad.buttons[9].pressed = true")
        expect(seen.page.locator(".hud-middle")).to_have_text("3", timeout=LIMIT_MS)
        seen.page.evaluate("pad.buttons[9].pressed = false")
        expect(seen.page.locator(".hud-middle")).to_have_text("", timeout=LIMIT_MS)
        seen.page.evaluate("pad.axes = [0, 0, 0, -1]")  # the right stick ahead
        expect(seen.page.locator("#result")).to_have_text(
            re.compile("^Finished in "), timeout=FLIGHT_MS
        )


def test_who_leaves_the_page_leaves_a_vehicle_that_hovers(arcade: Watched, url: str) -> None:
    page = arcade.page
    start(page)
    page.keyboard.down("r")
    wait_until(lambda: vehicle(url)["pilot"] == "command", PATIENCE_S)
    wait_until(lambda: vehicle(url)["v_world_mps"][2] > 0.3, PATIENCE_S)  # type: ignore[index]
    page.goto("about:blank")
    wait_until(lambda: vehicle(url)["pilot"] == "timeout", PATIENCE_S)
    wait_until(lambda: max(map(abs, vehicle(url)["v_world_mps"])) < 0.05, PATIENCE_S)  # type: ignore[call-overload]


@pytest.mark.long
def test_another_course_is_chosen_and_its_gate_is_shown_by_an_arrow(
    arcade: Watched, url: str
) -> None:
    page = arcade.page
    page.get_by_label("Course").select_option("arcade_basement_2")
    expect(page.locator("#leaders-of")).to_have_text("arcade_basement_2, 1 lap", timeout=LIMIT_MS)
    laps = page.get_by_label("Laps", exact=True)
    expect(laps).to_have_value("1")
    laps.fill("2")
    laps.press("Tab")
    expect(page.locator("#leaders-of")).to_have_text("arcade_basement_2, 2 laps", timeout=LIMIT_MS)
    scene = httpx.get(f"{url}api/v1/scene", timeout=PATIENCE_S).raise_for_status().json()
    assert (scene["course"]["name"], len(scene["gates"])) == ("arcade_basement_2", 10)
    assert vehicle(url)["p_world_m"] == pytest.approx([-8.0, -4.5, 1.0], abs=0.1)
    page.locator("#screen").focus()
    page.keyboard.down("q")  # the gate ahead goes out of sight
    wait_until(lambda: abs(vehicle(url)["q_world_body"][2]) > 0.9, PATIENCE_S)  # type: ignore[index]
    page.keyboard.up("q")
    arcade.until(f"() => (([, green]) => green > 200)(({SEEN})())")


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("dark", 390),
        *(
            pytest.param(*look, marks=pytest.mark.long)
            for look in (("light", 1280), ("light", 390))
        ),
    ],
)
def test_axe_finds_nothing_and_it_fits(url: str, browser: Browser, theme: str, width: int) -> None:
    screen = {"width": width, "height": 844}
    with watched(browser, f"{url}arcade", color_scheme=theme, viewport=screen) as seen:
        seen.until("() => !document.getElementById('start').disabled")
        assert complaints(seen.page) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width


def test_the_dashboard_shows_the_race_and_resets_it(url: str, browser: Browser) -> None:
    with watched(browser, url, viewport={"width": 1000, "height": 760}) as seen:
        seen.page.get_by_role("button", name="Reset the race").click()
        seen.until("() => /starts again/.test(document.querySelector('#race .answer').innerText)")
        seen.until(
            "() => /1.*drone.*(Gate1|First)/s.test(document.querySelector('#racers "
            "tbody').innerText)"
        )
        assert seen.page.get_by_role("link", name="fly it").get_attribute("href") == "arcade"
