"""The operator's page in a real browser: what it shows is what the bridge does, today."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.painter import FIELDS
from tests.browser.rig import LIMIT_MS, PageRig, Watched, watched
from tests.support.common import wait_until

pytestmark = pytest.mark.browser


PLACE = """name => {
  const rows = [...document.querySelectorAll('#actors tr')];
  const row = rows.find(row => row.innerText.startsWith(name));
  return [4, 5, 6].map(cell => parseFloat(row.cells[cell].textContent));
}"""
ROW = (
    "name => [...document.querySelectorAll('#renderers tr')].find(row => "
    "row.innerText.startsWith(name))"
)
PICTURE = ".picture[data-camera=front][data-variant={}]"

# The board of fields on the canvas as bits, and the number over it, in one turn of the page's loop.
READ_FRAME = f"""selector => {{
  const figure = document.querySelector(selector), canvas = figure?.querySelector('canvas');
  const told = figure?.querySelector('.overlay dd')?.textContent;
  if (!told) return null;
  const {{data}} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let bits = '';
  for (let row = 0; row < {FIELDS}; row++) for (let column = 0; column < {FIELDS}; column++) {{
    const x = Math.floor((column + 0.5) * canvas.width / {FIELDS});
    const y = Math.floor((row + 0.5) * canvas.height / {FIELDS});
    bits += data[4 * (y * canvas.width + x)] > 127 ? '1' : '0';
  }}
  return [String(BigInt('0b' + bits)), told];
}}"""


@pytest.fixture
def page(rig: PageRig, browser: Browser) -> Iterator[Watched]:
    """All that it asks for comes from the bridge, and it complains of nothing."""
    with watched(browser, rig.url) as seen:
        seen.until("() => /^(ready|degraded)$/.test(document.getElementById('ready').textContent)")
        yield seen
        seen.assert_at_peace(rig.url)


def record(page: Watched, rig: PageRig, name: str) -> None:
    """Make a recording in which pictures came."""
    web, where = page.page.request, f"{rig.url}api/v1/recording"
    assert web.put(where, data={"name": name}).ok
    before = received(rig)
    wait_until(lambda: received(rig) > before + 3)
    assert web.delete(where).ok


def received(rig: PageRig) -> int:
    """Pictures that the renderer has sent for the front camera."""
    count: int = rig.get()["cameras"]["front"]["frames"]["received"]
    return count


def await_picture(page: Watched) -> str:
    """The selector of the picture as rendered, once it shows one."""
    selector = PICTURE.format("raw")
    page.scroll_to("#pictures")
    page.until(f"selector => ({READ_FRAME})(selector) !== null", selector)
    return selector


def test_the_stream_preview_shows_the_frame_of_today(page: Watched, rig: PageRig) -> None:
    selector = await_picture(page)
    first, told = page.page.evaluate(READ_FRAME, selector)
    assert first == told
    started_ns = rig.get()["t_ns"]
    page.until(
        f"([selector, after]) => BigInt(({READ_FRAME})(selector)[0]) > BigInt(after)",
        [selector, str(started_ns)],
    )
    painted, told = page.page.evaluate(READ_FRAME, selector)
    assert painted == told
    # Numbers are the bridge's time of the request.
    assert started_ns < int(painted) < rig.get()["t_ns"]


def test_the_compensated_picture_comes_with_the_angle_of_its_warp(page: Watched) -> None:
    selector = PICTURE.format("compensated")
    page.scroll_to("#pictures")
    page.until(
        "selector => /frame.*age.*warp.*°/s.test(document.querySelector(selector)?.innerText)",
        selector,
    )


def test_the_world_is_visible_and_moves_and_the_table_says_where_everybody_is(
    page: Watched, rig: PageRig
) -> None:
    page.page.set_viewport_size({"width": 1000, "height": 560})
    page.until("() => document.querySelectorAll('#world-view .world-label').length >= 2")
    canvas = page.page.locator("#world-view canvas").first
    page.page.evaluate(
        "() => { document.querySelector('.world-labels').style.visibility = 'hidden'; }"
    )
    height_px = "() => document.querySelector('#world-view').clientHeight"
    stands_px = page.page.evaluate(height_px)
    before, told = canvas.screenshot(), rig.get()["actors"]["drone"]["p_world_m"]
    page.until(
        f"([x, y]) => {{ const p = ({PLACE})('drone'); return Math.hypot(p[0] - x, p[1] - "
        f"y) > 0.1; }}",
        told[:2],
    )
    assert canvas.screenshot() != before
    assert page.page.evaluate(height_px) == stands_px  # its picture does not make it grow
    tick = "() => document.querySelector('#actors').innerText"
    before_text = page.page.evaluate(tick)
    here = rig.get()["actors"]["drone"]["p_world_m"]
    page.until(f"text => ({tick})() !== text", before_text)
    shown = page.page.evaluate(f"() => ({PLACE})('drone')")
    # It flies at 2 m/s, the table is new twice a second.
    assert np.hypot(*(np.array(shown)[:2] - here[:2])) < 6.0


def test_a_renderer_that_is_killed_is_told_in_two_seconds_and_welcomed_back(
    page: Watched, rig: PageRig
) -> None:
    raw = await_picture(page)
    page.until(f"() => /running/.test(({ROW})('hall').innerText)")
    rig.kill("renderer")
    shown = f"() => /waiting|retrying/.test(({ROW})('hall').innerText)"
    assert wait_until(lambda: page.page.evaluate(shown)) < 2.0
    page.until("() => document.getElementById('ready').textContent === 'not ready'")
    words = page.page.locator("#reasons").inner_text()
    assert "renderer hall is" in words and "vil-bridge renderer" in words
    page.until(
        "selector => document.querySelector(selector).classList.contains('old-picture')", raw
    )
    note = page.page.locator(raw).locator(".picture-note")
    assert note.inner_text().startswith("old: last picture")
    # A busy machine may stall the emulated mocap too: then the drone is named first.
    wait_until(lambda: rig.get()["cameras"]["front"]["problem"].startswith("renderer hall is "))
    wait_until(lambda: "renderer hall is " in note.inner_text())
    rig.start("renderer")
    page.until("() => /^(ready|degraded)$/.test(document.getElementById('ready').textContent)")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_flown_camera_and_its_vehicle_are_above_the_fold(
    rig: PageRig, browser: Browser, width: int, height: int
) -> None:
    with watched(browser, rig.url, viewport={"width": width, "height": height}) as seen:
        facts = "captured to output[^]*rate[^]*newest picture[^]*drone tracked"
        seen.until(f"() => /{facts}/.test(document.getElementById('flown').innerText)")
        seen.until("() => document.querySelector('#flown dd').innerText.includes('ms')")
        box = seen.page.locator("#flown").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < height
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width


def with_a_clock_that_stands(context: BrowserContext) -> None:
    context.clock.install()
    context.clock.pause_at(time.time() + 1.0)


def test_the_last_ten_minutes_are_drawn_for_a_page_that_comes_late(
    rig: PageRig, browser: Browser
) -> None:
    wait_until(lambda: rig.get("api/v1/history/front")["output_ms"][-1])
    with watched(browser, rig.url, with_a_clock_that_stands) as seen:  # it gets no second answer
        seen.scroll_to("#history")
        seen.until("() => document.querySelectorAll('#history .uplot').length === 3")
        seen.until("() => /output\\W*\\d/.test(document.getElementById('history').innerText)")


def test_the_events_are_told(page: Watched) -> None:
    page.until("() => /hall\\s+running/.test(document.querySelector('.log').innerText)")
    page.page.locator("#log-panel select").select_option("error")
    assert "running" not in page.page.locator(".log").inner_text()
    page.page.locator("#log-panel select").select_option("info")


def test_a_mount_keeps_what_was_not_edited(page: Watched, rig: PageRig) -> None:
    web, where = page.page, "api/v1/cameras/front/mount"
    before = rig.get(where)
    web.locator("summary", has_text="Camera mount and gimbal").click()
    group = web.get_by_role("group", name="Camera mount and gimbal")
    group.get_by_label("forward").fill("0.1255")
    group.get_by_label("forward").press("Enter")
    page.until("() => /Moved/.test(document.getElementById('controls').innerText)")
    after = rig.get(where)
    assert after["p_m"] == [0.1255, *before["p_m"][1:]]
    np.testing.assert_allclose(after["q_xyzw"], before["q_xyzw"], atol=1e-12)
    group.get_by_label("pitch").fill("200")
    after["p_m"] = [0.25, *before["p_m"][1:]]  # somebody else moves it meanwhile
    assert web.request.put(f"{rig.url}{where}", data=after).ok
    expect(group.get_by_label("forward")).to_have_value("0.25", timeout=LIMIT_MS)
    group.get_by_label("pitch").press("Enter")
    page.until("() => /angles between/.test(document.querySelector('.answer.bad')?.textContent)")
    assert rig.get(where) == after
    web.locator("summary", has_text="Camera mount and gimbal").click()


def test_the_weather_is_set_from_the_page(page: Watched, rig: PageRig) -> None:
    group = page.page.locator("details.group", has_text="Light and weather")
    group.locator("summary").click()
    form = group.locator("form", has_text="amount")
    form.get_by_label("Weather").select_option("fog")
    form.get_by_label("amount").fill("0.25")
    form.get_by_role("button", name="Set").click()
    expect(group).to_contain_text("Weather: fog 0.25.", timeout=LIMIT_MS)
    assert rig.get("api/v1/lighting")["weather"]["fog"] == 0.25
    form.get_by_role("button", name="Scene default").click()
    expect(group).to_contain_text("Weather: scene default.", timeout=LIMIT_MS)
    assert rig.get("api/v1/lighting")["weather"] is None


def test_record_and_replay_from_the_page(page: Watched, rig: PageRig) -> None:
    web = page.page
    web.get_by_label("Name").first.fill("flight-1")
    web.get_by_role("button", name="Record", exact=True).click()
    page.until("() => /[1-9]\\d* messages/.test(document.getElementById('controls').innerText)")
    assert rig.get("api/v1/recording")["state"] == "recording"
    page.until(
        "() => document.getElementById('modes').innerText.includes('REC') && /^REC "
        "/.test(document.title)"
    )
    assert (
        web.get_by_role("link", name="Report so far of flight-1.mcap").get_attribute("target")
        == "_blank"
    )
    web.get_by_role("button", name="Stop and close the file").click()
    page.until("() => /The file is closed/.test(document.getElementById('controls').innerText)")
    name = rig.get("api/v1/recording")["file"].rpartition("/")[2]
    web.locator("summary", has_text="Replay").click()
    web.get_by_label("Again and again").check()  # it must not end before it is stopped
    web.get_by_role("button", name=f"Play {name}").click()
    page.until("() => /held back/.test(document.getElementById('controls').innerText)")
    assert rig.get("api/v1/replay")["state"] == "playing"
    page.until(
        "() => document.getElementById('modes').innerText === 'REPLAY' && /^REPLAY "
        "/.test(document.title)"
    )
    page.until("() => /replay/i.test(document.getElementById('sources').innerText)")
    web.get_by_role("button", name="Stop the replay").click()
    page.until("() => !/held back/.test(document.getElementById('controls').innerText)")
    assert rig.get("api/v1/replay")["state"] != "playing"


@pytest.mark.long
def test_a_report_of_a_recording_opens_beside_the_page(page: Watched, rig: PageRig) -> None:
    """By keys; its own policy lets its style through."""
    record(page, rig, "reported")
    page.page.locator("summary", has_text="Replay").click()
    link = page.page.get_by_role("link", name="Report of reported.mcap")
    link.focus()
    with page.page.expect_popup(timeout=LIMIT_MS) as opened:
        link.press("Enter")
    report = opened.value
    errors: list[str] = []
    report.on("console", lambda message: errors.append(message.text))
    report.wait_for_selector("h2", timeout=LIMIT_MS)
    assert report.url == f"{rig.url}api/v1/recordings/reported.mcap/report"
    assert report.locator("h1").inner_text().startswith("Frames of")
    assert report.evaluate("getComputedStyle(document.body).maxWidth") == "960px"
    assert report.evaluate("fetch('/healthz').then(() => 'reached', () => 'refused')") == "refused"
    assert [text for text in errors if "connect" not in text.lower()] == []
    report.close()


def test_the_rest_interface_describes_itself_and_can_be_tried(
    rig: PageRig, browser: Browser
) -> None:
    with watched(browser, f"{rig.url}docs") as seen:
        seen.until("() => document.querySelectorAll('details.group').length > 40")
        seen.page.locator("#filter").fill("put_faults")
        seen.page.locator("summary:visible").click()
        card = seen.page.locator("#put_faults")
        card.get_by_label("name (path)").fill("motive_actor")
        card.get_by_label("Body").fill('{"faults": "delay=1ms"}')
        assert 'curl -X PUT --json \'{"faults": "delay=1ms"}\'' in card.inner_text()
        card.get_by_role("button", name="Send").click()
        seen.until(
            "() => /^200/.test(document.querySelector('#put_faults .answer-text').innerText)"
        )
        assert rig.get("api/v1/sources/motive_actor/faults") == {"faults": "delay=1ms"}
        card.get_by_label("Body").fill('{"faults": ""}')
        card.get_by_role("button", name="Send").click()
        seen.until(
            '() => /"faults": ""/.test(document.querySelector(\'#put_faults '
            ".answer-text').innerText)"
        )
        seen.assert_at_peace(rig.url)


def test_a_bridge_without_a_race_says_so(rig: PageRig, browser: Browser) -> None:
    with watched(browser, f"{rig.url}arcade") as seen:
        seen.until(
            "() => /add the section `race`/.test(document.getElementById('why').textContent)"
        )
        assert seen.page.locator("#start").is_disabled()
        seen.page.goto(rig.url, wait_until="commit")
        seen.until("() => /^(ready|degraded)$/.test(document.getElementById('ready').textContent)")
        assert seen.page.locator("#race").is_hidden()
