// Faults rehearsed on a source: loss, delay, occlusion.

import { ask, part } from "../api";
import { element } from "../dom";
import { field, Group, setOptions, submit, textInput } from "./group";

export class Rehearsal extends Group {
  private readonly source = element("select");
  private readonly text = textInput("loss=5%,delay=20ms");

  constructor() {
    super("Rehearse faults", () => void this.load());
    this.form([field("Source", this.source), field("Faults", this.text), submit("Inject"), this.button("None", () => this.set(""))], () => this.set(this.text.value));
    this.body.append(element("p", "quiet", "What the source sends is lost, delayed or hidden on purpose; the status says so."));
    this.source.addEventListener("change", () => void this.load());
  }

  setSources(names: string[]): void {
    setOptions(this.source, names);
  }

  private load(): Promise<void> {
    return this.attempt(async () => {
      if (this.source.value === "") return "No source yet: `vil-bridge discover` finds mocap servers.";
      return this.tell(await ask<{ inject: string }>("GET", this.path()));
    });
  }

  private async set(inject: string): Promise<string> {
    return this.tell(await ask<{ inject: string }>("PUT", this.path(), { inject }));
  }

  private tell({ inject }: { inject: string }): string {
    this.text.value = inject;
    this.brief.textContent = inject ? `${this.source.value}: ${inject}` : "";
    return inject ? `${this.source.value} suffers ${inject}.` : `${this.source.value} is left alone.`;
  }

  private path(): string {
    return `sources/${part(this.source.value)}/faults`;
  }
}
