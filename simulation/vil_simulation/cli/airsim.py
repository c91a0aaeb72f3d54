"""``vil-bridge airsim``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Spread the worlds over the hosts of this Ray cluster: auto or HOST:PORT.",
    ),
]


def airsim(
    settings: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SETTINGS]", help="AirSim's settings.json; none = AirSim's defaults."
        ),
    ] = None,
    scene: Annotated[
        str | None,
        typer.Option(
            help="What cameras and rays see: a scene's name or file; none = blocks, or empty "
            "with --course."
        ),
    ] = None,
    course: Annotated[
        str | None,
        typer.Option(
            metavar="COURSE",
            help="Race course for programs of the drone racing lab: a name or file.",
        ),
    ] = None,
    profile: Annotated[str, typer.Option(help="Quality: low, medium, high, ultra.")] = "low",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="TCP port; none = as the settings say (41451)."),
    ] = None,
    bind: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Allow an address that the network can reach, without keys."
        ),
    ] = False,
    compat: Annotated[
        bool,
        typer.Option(
            "--compat",
            help="Fly as AirSim's own code does, its slips included, not to goals and rest.",
        ),
    ] = False,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="What every program may do: view = read, control = change everything.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder of the files that programs make; none = as the settings say."),
    ] = None,
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the status page; 0 = any free one.")
    ] = 0,
    scene_server: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Open worlds for programs of the AirVLN family instead.",
        ),
    ] = None,
    ray: RayAddress = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also log details.")] = False,
) -> None:
    """Serve AirSim programs without AirSim.

    World, vehicles, pictures and the RPC in one command, until Ctrl-C.
    """
    import logging

    from vil_bridge.monitoring.logging_setup import setup_logging
    from vil_simulation.airsim.settings import load_settings
    from vil_simulation.airsim.standalone.world import airsim_bridge, autopilot_lines

    if ray is not None and scene_server is None:
        raise typer.BadParameter(
            "--ray spreads the worlds of a scene server. Add --scene-server PORT"
        )
    if course is not None and scene_server is not None:
        raise typer.BadParameter("--course is of one world: omit it, or --scene-server")
    scene = scene or ("blocks" if course is None else "empty")
    if scene_server is not None and (role is not None or folder is not None):
        raise typer.BadParameter(
            "--role and --folder are for one world. Leave them out with --scene-server: "
            "the programs of its worlds"
            " have control, and Recording.Folder of the settings is their folder"
        )
    setup_logging(level=logging.DEBUG if verbose else logging.INFO)
    read = load_settings(settings)
    for line in (*read.ignored, *autopilot_lines(read, scene)):
        print(f"settings: {line}", flush=True)
    if scene_server is not None:
        from vil_simulation.airsim.standalone.scenes import serve_scenes
        from vil_simulation.airsim.standalone.world_process import WorldOptions

        serve_scenes(
            WorldOptions(read.text, scene, profile, bind, insecure, compat), scene_server, ray
        )
        return
    config = airsim_bridge(
        read,
        scene=scene,
        profile=profile,
        port=port,
        bind=bind,
        insecure=insecure,
        http_port=http_port,
        compat=compat,
        course=course,
        role=role,
        folder=folder,
    )
    from vil_bridge.run import run_bridge

    run_bridge(config)
