"""PyPI ``natnet`` as an independent client, in a child process.

Its threads outlive a reader that failed.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from tests.support.programs import Program

__all__ = ["read_by_natnet"]

_CLIENT: Final = """
import json, os, sys
from natnet import NatNetClient
out = os.dup(1)
os.dup2(2, 1)  # the library prints
seen = {}

def on_models(models):
    seen["names"] = {body.id_num: body.name for body in models.rigid_bodies}
    seen["bones"] = [
        bone.name
        for skeleton in models.skeletons
        for bone in skeleton.rigid_body_descriptions
    ]

def on_frame(frame):
    seen["bodies"] = {b.id_num: [*b.pos, *b.rot, b.tracking_valid] for b in frame.rigid_bodies}
    seen["skeleton"] = [[*b.pos, *b.rot] for s in frame.skeletons for b in s.rigid_bodies]
    seen["labeled"] = [[*m.pos, m.occluded] for m in frame.labeled_markers]
    seen["sets"] = [s.model_name for s in frame.marker_sets]

client = NatNetClient(**json.loads(sys.argv[1]))
client.on_data_description_received_event.handlers.append(on_models)
client.on_data_frame_received_event.handlers.append(on_frame)
client.connect(10.0)
client.run_async()
client.request_modeldef()
while not {"bones", "sets"} <= seen.keys():
    client._NatNetClient__command_thread.join(0.01)
os.write(out, (json.dumps(seen) + "\\n").encode())
os._exit(0)
"""


async def read_by_natnet(command_port: int, data_port: int, *, multicast: bool) -> dict[str, Any]:
    """Return names, bones, poses and markers of the descriptions and a frame that the client
    reads.
    """
    keys = {
        "server_ip_address": "127.0.0.1",
        "local_ip_address": "127.0.0.1",
        "use_multicast": multicast,
        "command_port": command_port,
        "data_port": data_port,
    }
    with Program(sys.executable, "-c", _CLIENT, json.dumps(keys), split=True) as child:
        await child.until(lambda: child.text().endswith("\n"), "a line")
        seen: dict[str, Any] = json.loads(child.text())
        return seen
