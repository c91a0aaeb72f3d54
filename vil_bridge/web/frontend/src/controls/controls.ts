// Everything that changes the bridge, for those who may.

import { setText } from "../dom";
import type { Recording, Status, Whoami } from "../status";
import type { SceneFacts } from "../world/facts";
import { Configuration } from "./configuration";
import { FaultInjection } from "./faults";
import type { Group } from "./group";
import { Light } from "./light";
import { Mount } from "./mount";
import { Obstacles } from "./obstacles";
import { Player, Recorder } from "./recorder";
import { Time } from "./time";

export class Controls {
  private readonly player = new Player();
  private readonly recorder = new Recorder(() => void this.player.load());
  private readonly time = new Time();
  private readonly mount = new Mount();
  private readonly faults = new FaultInjection();
  private readonly groups: Group[] = [
    this.recorder, this.player, this.time, this.mount, new Light(), new Obstacles(), this.faults, new Configuration(),
  ];

  constructor(host: HTMLElement, private readonly role: HTMLElement) {
    host.append(...this.groups.map((group) => group.node));
    this.recorder.node.open = true;
    this.setLocked(true);
    setText(role, "locked until the bridge reports your role");
  }

  setRole(who: Whoami): void {
    const may = who.role === "control";
    this.setLocked(!may);
    const open = who.insecure ? ", as can everybody on this network: the bridge was started with --insecure" : "";
    setText(this.role, may ? `You can change things${open}.` : "View only. Open the page with the control token to change things.");
  }

  /** After the connection came back. */
  refresh(): void {
    for (const group of this.groups) group.refresh();
  }

  setScene(facts: SceneFacts): void {
    this.mount.setCameras(facts.cameras.map((camera) => camera.name));
  }

  show(now: Status): void {
    this.time.show(now.simulation);
    this.faults.setSources(Object.keys(now.sources));
  }

  showRecording(recording: Recording): void {
    this.recorder.show(recording);
  }

  private setLocked(locked: boolean): void {
    for (const group of this.groups) group.lock(locked);
  }
}
