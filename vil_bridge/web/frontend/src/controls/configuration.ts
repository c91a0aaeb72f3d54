// The configuration in force, and reading its file again.

import { ask } from "../api";
import { element } from "../dom";
import { Group } from "./group";

interface Reload {
  applied: string[];
  needs_restart: string[];
}

export class Configuration extends Group {
  constructor() {
    super("Configuration");
    const row = element("div", "row");
    const link = Object.assign(element("a", "", "Configuration in force"), { href: "api/v1/config" });
    row.append(this.button("Reload the file", () => this.reload()), link);
    this.body.append(row);
  }

  private async reload(): Promise<string> {
    const { applied, needs_restart } = await ask<Reload>("POST", "config/reload");
    const now = applied.length > 0 ? `Applied: ${applied.join(", ")}.` : "No change that can be applied in flight.";
    return needs_restart.length > 0 ? `${now} Needs a restart: ${needs_restart.join(", ")}.` : now;
  }
}
