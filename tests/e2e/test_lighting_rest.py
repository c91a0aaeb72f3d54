"""Light changed over REST reaches the renderer with the next poses."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.events import until
from vil_bridge.core.types import LampState, Lighting, RenderedImage, View, WorldSnapshot
from vil_bridge.core.weather import Weather
from vil_renderer.embedded.lighting.daylight import lamps_text
from vil_renderer.embedded.scenes import SCENES
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


URL = "/api/v1/lighting"
DUSK = {
    "time_of_day_h": 19.5,
    "lamps": {"north": {"power": 0.25, "colour": [1.0, 0.5, 0.25]}},
    "weather": None,
}
DEFAULT: Any = {"time_of_day_h": None, "lamps": {}, "weather": None}


class Recorder:
    """A renderer that remembers the light of the poses.

    Its pictures are as bright as the lamp ``north``.
    """

    def __init__(self) -> None:
        self.seen: deque[Lighting | None] = deque(maxlen=1)
        self.info: dict[str, Any] = {}

    def draw(self, views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        self.seen.append(snapshot.lighting)
        lamps = {} if snapshot.lighting is None else snapshot.lighting.lamps
        level = round(100 * lamps.get("north", LampState()).power)
        return RenderedRequest(
            tuple(RenderedImage(v, np.full((24, 32, 3), level, np.uint8)) for v in views if v.due),
            info=self.info,
        )

    async def sees(self, expected: Lighting | None) -> None:
        """Wait for a pose with that light; the test's time-out ends it."""
        await until(lambda: self.seen and self.seen[-1] == expected)


@asynccontextmanager
async def studio() -> AsyncIterator[tuple[Recorder, httpx.AsyncClient]]:
    recorder = Recorder()
    async with (
        bridge_with_camera("latency_compensation: none", recorder.draw) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        yield recorder, web


async def answer_of(answer: httpx.Response) -> Any:
    return answer.raise_for_status().json()


async def test_the_light_follows_put_and_patch() -> None:
    async with studio() as (renderer, web):
        await renderer.sees(None)
        assert await answer_of(await web.get(URL)) == DEFAULT

        assert await answer_of(await web.put(URL, json=DUSK)) == DUSK
        north = LampState(0.25, (1.0, 0.5, 0.25))
        await renderer.sees(Lighting(19.5, {"north": north}))
        assert await answer_of(await web.get(URL)) == DUSK

        await answer_of(await web.patch(URL, json={"lamps": {"south": {"power": 0}}}))
        await renderer.sees(Lighting(19.5, {"north": north, "south": LampState(0.0)}))

        await answer_of(
            await web.patch(URL, json={"time_of_day_h": None, "lamps": {"north": None}})
        )
        await renderer.sees(Lighting(None, {"south": LampState(0.0)}))

        await answer_of(await web.patch(URL, json={"time_of_day_h": 6}))
        await renderer.sees(Lighting(6.0, {"south": LampState(0.0)}))

        assert await answer_of(await web.put(URL, json={})) == DEFAULT
        await renderer.sees(None)


async def test_the_weather_follows_put_and_patch() -> None:
    async with studio() as (renderer, web):
        foggy = await answer_of(await web.put(URL, json={"weather": {"fog": 0.5}}))
        assert (
            foggy["weather"] | {"fog": 0.5, "rain": 0.0, "wind_mps": [0.0, 0.0, 0.0]}
            == foggy["weather"]
        )
        await renderer.sees(Lighting(weather=Weather(fog=0.5)))
        both = await answer_of(
            await web.patch(
                URL, json={"weather": {"rain": 1, "wind_mps": [3, 0, 0]}, "time_of_day_h": 9}
            )
        )
        assert both == await answer_of(await web.get(URL))
        await renderer.sees(
            Lighting(9.0, weather=Weather(fog=0.5, rain=1.0, wind_mps=(3.0, 0.0, 0.0)))
        )
        await answer_of(await web.patch(URL, json={"weather": {"fog": 0}}))
        await renderer.sees(Lighting(9.0, weather=Weather(rain=1.0, wind_mps=(3.0, 0.0, 0.0))))
        await answer_of(await web.patch(URL, json={"weather": None}))
        await renderer.sees(Lighting(9.0))
        assert (await answer_of(await web.put(URL, json=DEFAULT))) == DEFAULT
        await renderer.sees(None)


async def test_the_light_is_seen_in_the_picture() -> None:
    recorder = Recorder()
    async with bridge_with_camera("latency_compensation: none", recorder.draw) as bridge:
        relay = bridge.context.cameras["front"].relay

        async def brightness(expected: int) -> None:
            await until(
                lambda: relay.newest is not None and int(relay.newest[1][0, 0, 0]) == expected
            )

        await brightness(100)
        async with httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
            await answer_of(await web.put(URL, json=DUSK))
        await brightness(25)


NONSENSE: Any = [
    ({"time_of_day_h": 25}, "time_of_day_h: Input should be less than or equal to 24"),
    ({"time_of_day_h": "noon"}, "time_of_day_h: Input should be a valid number"),
    ({"time_of_day_h": True}, "time_of_day_h: "),
    ({"lamps": {"north": {"power": -1}}}, "lamps.north.power: "),
    ({"lamps": {"north": {"power": 1e9}}}, "lamps.north.power: "),
    ({"lamps": {"north": {"colour": [1, 1]}}}, "lamps.north.colour"),
    (
        {"lamps": {"north": {"color": [1, 1, 1]}}},
        "lamps.north.color: Extra inputs are not permitted",
    ),
    ({"lamps": {"": {}}}, "lamps"),
    ({"lamps": {str(i): {} for i in range(257)}}, "lamps: "),
    ({"moon": 1}, "moon: Extra inputs are not permitted"),
    ({"weather": {"fog": 1.1}}, "weather.fog: Input should be less than or equal to 1"),
    ({"weather": {"hail": 1}}, "weather.hail: Extra inputs are not permitted"),
    ({"weather": {"wind_mps": [0, 0]}}, "weather.wind_mps"),
    ([], "body: "),
]


async def test_what_makes_no_sense_is_refused_with_its_place() -> None:
    async with studio() as (_, web):
        await answer_of(await web.put(URL, json=DUSK))
        for body, place in NONSENSE:
            for method in ("PUT", "PATCH"):
                answer = await web.request(method, URL, json=body)
                assert answer.status_code == 422, body
                assert place in answer.json()["detail"]
        assert await answer_of(await web.get(URL)) == DUSK, "a refused change changes nothing"


async def test_bodies_are_bounded_and_json() -> None:
    async with studio() as (_, web):
        assert (await web.put(URL, content=b" " * 70_000)).status_code == 413
        for junk in (b"", b"\xff", b"{", b'{"time_of_day_h": NaN}', b"[" * 30_000):
            assert (await web.put(URL, content=junk)).status_code == 422
        many: dict[str, Any] = {"lamps": {f"a{i}": {} for i in range(200)}}
        await answer_of(await web.put(URL, json=many))
        more = await web.patch(URL, json={"lamps": {f"b{i}": {} for i in range(200)}})
        assert more.status_code == 422 and "400 lamps: at most 256" in more.json()["detail"]
        assert await answer_of(await web.get(URL)) == {
            "time_of_day_h": None,
            "lamps": {name: {"power": 1.0, "colour": [1.0, 1.0, 1.0]} for name in many["lamps"]},
            "weather": None,
        }


async def test_other_web_sites_cannot_change_it() -> None:
    async with studio() as (_, web):
        for headers in ({"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}):
            assert (await web.put(URL, json=DUSK, headers=headers)).status_code == 403
        assert (await answer_of(await web.get(URL)))["lamps"] == {}


async def test_lamps_are_listed_and_unknown_names_are_refused_with_the_known_ones() -> None:
    async with studio() as (renderer, web):
        assert await answer_of(await web.get(f"{URL}/lamps")) == {"listed": False, "lamps": {}}
        # It may have one.
        assert await answer_of(await web.patch(URL, json={"lamps": {"south": {"power": 0.5}}}))
        renderer.info = {"lamps": lamps_text(SCENES["hall"]().lamps)}
        async with asyncio.timeout(60):
            while not (listed := await answer_of(await web.get(f"{URL}/lamps")))["listed"]:
                await asyncio.sleep(0.02)
        assert list(listed["lamps"]) == [f"Lamp{i}" for i in range(1, 7)]
        assert listed["lamps"]["Lamp1"] == {"p_m": [-5.5, -3.5, 4.85], "light": [7.5, 7.0, 6.2]}
        for ask in (web.put, web.patch):
            refused = await ask(
                URL, json={"lamps": {"Lamp1": {"power": 0.5}, "south": {"power": 0.0}}}
            )
            assert refused.status_code == 422
            assert refused.json()["detail"].startswith(
                "lamps.south: the scene has no such lamp; known: Lamp1, Lamp2"
            )
        assert list((await answer_of(await web.get(URL)))["lamps"]) == ["south"]
        gone = await web.patch(URL, json={"lamps": {"Lamp1": {"power": 0.5}, "south": None}})
        assert list((await answer_of(gone))["lamps"]) == ["Lamp1"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": [1, 2]}', '{"": [0, 0, 0, 0, 0, 0]}', '{"a": [0, 0, 0, 0, 0, "x"]}']
)
async def test_a_list_that_is_none_is_no_list(text: str) -> None:
    async with studio() as (renderer, web):
        renderer.info = {"lamps": text}
        await renderer.sees(None)
        assert await answer_of(await web.get(f"{URL}/lamps")) == {"listed": False, "lamps": {}}
