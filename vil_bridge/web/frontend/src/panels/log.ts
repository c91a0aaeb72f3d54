// The event log: what happened, newest first, from a level on.

import { element } from "../dom";
import { moment } from "../format";
import type { LogEntry } from "../status";

const MOST = 300;
const LEVELS = ["info", "warning", "error"];
const CLASSES: Record<LogEntry["level"], string> = { info: "", warning: "fair", error: "bad" };

export class Log {
  private readonly list = element("ol", "log");
  private readonly empty = element("p", "empty", "No event of this level yet. State changes, warnings and faults appear here.");
  private readonly level = element("select");
  private entries: LogEntry[] = [];

  constructor(host: HTMLElement) {
    const label = element("label", "field");
    for (const level of LEVELS) this.level.append(new Option(level === "error" ? level : `${level} and worse`, level));
    label.append("Show ", this.level);
    this.level.addEventListener("change", () => this.showAll());
    this.list.setAttribute("aria-label", "Events, newest first");
    this.list.tabIndex = 0;
    host.append(label, this.list, this.empty);
    this.showAll();
  }

  /** A new connection, perhaps to a bridge that was started again, sends everything from the beginning. */
  restart(): void {
    this.entries = [];
    this.showAll();
  }

  take(entry: LogEntry): void {
    this.entries.push(entry);
    if (this.entries.length > MOST) this.entries.shift();
    if (this.shows(entry)) this.list.prepend(row(entry));
    while (this.list.children.length > MOST) this.list.lastElementChild?.remove();
    this.hint();
  }

  private shows(entry: LogEntry): boolean {
    return LEVELS.indexOf(entry.level) >= LEVELS.indexOf(this.level.value);
  }

  private showAll(): void {
    this.list.replaceChildren(...this.entries.filter((entry) => this.shows(entry)).map(row).reverse());
    this.hint();
  }

  private hint(): void {
    this.empty.hidden = this.list.children.length > 0;
    this.list.hidden = !this.empty.hidden;
  }
}

function row(entry: LogEntry): HTMLElement {
  const item = element("li");
  const time = element("time", "quiet", moment(entry.utc));
  time.dateTime = entry.utc;
  item.append(time, element("span", `badge ${CLASSES[entry.level]}`, entry.level), element("span", "strong", entry.component), element("span", "", entry.text));
  return item;
}
