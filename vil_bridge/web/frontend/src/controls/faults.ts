// Fault injection into a source: loss, delay, occlusion.

import { ask, part } from "../api";
import { element } from "../dom";
import { field, Group, setOptions, submit, textInput } from "./group";

interface FaultsOut {
  faults: string;
}

export class FaultInjection extends Group {
  private readonly source = element("select");
  private readonly text = textInput("loss=5%,delay=20ms");

  constructor() {
    super("Inject faults", () => void this.load());
    this.form([field("Source", this.source), field("Faults", this.text), submit("Inject"), this.button("None", () => this.set(""))], () => this.set(this.text.value));
    this.body.append(element("p", "quiet", "Data of the source is lost, delayed or hidden on purpose. The status of the source shows it."));
    this.source.addEventListener("change", () => void this.load());
  }

  setSources(names: string[]): void {
    setOptions(this.source, names);
  }

  private load(): Promise<void> {
    return this.attempt(async () => {
      if (this.source.value === "") return "No source yet. Find mocap servers with `vil-bridge discover`.";
      return this.show(await ask<FaultsOut>("GET", this.path()));
    });
  }

  private async set(faults: string): Promise<string> {
    return this.show(await ask<FaultsOut>("PUT", this.path(), { faults }));
  }

  private show({ faults }: FaultsOut): string {
    this.text.value = faults;
    this.brief.textContent = faults ? `${this.source.value}: ${faults}` : "";
    return `${this.source.value}: ${faults ? `injecting ${faults}.` : "no faults injected."}`;
  }

  private path(): string {
    return `sources/${part(this.source.value)}/faults`;
  }
}
