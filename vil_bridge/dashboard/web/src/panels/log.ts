// The event log: what happened, newest first, from a level on.

import { ask, part } from "../api";
import { element } from "../dom";
import type { LogEntry } from "../status";

const MOST = 300;
const LEVELS = ["debug", "info", "warning", "error"];
const CLASSES: Record<string, string> = { info: "", warning: "fair", error: "bad" };

export class Log {
  private readonly list = element("ol", "log");
  private readonly empty = element("p", "empty", "Nothing of that level has happened yet; changes of state, warnings and faults appear here by themselves.");
  private readonly level = element("select");
  private entries: LogEntry[] = [];
  private newest = 0;

  constructor(host: HTMLElement) {
    const label = element("label", "field");
    for (const level of LEVELS) this.level.append(new Option(`${level} and above`, level, level === "info", level === "info"));
    label.append("Show ", this.level);
    this.level.addEventListener("change", () => this.showAll());
    this.list.setAttribute("aria-label", "Events, newest first");
    this.list.tabIndex = 0;
    host.append(label, this.list, this.empty);
    this.showAll();
  }

  /** What came before this page, or while the connection was lost. */
  async catchUp(): Promise<void> {
    const entries = await ask<LogEntry[]>("GET", `log?after=${part(String(this.newest))}`);
    for (const entry of entries) this.take(entry);
  }

  take(entry: LogEntry): void {
    if (entry.id <= this.newest) return;
    this.newest = entry.id;
    this.entries.push(entry);
    if (this.entries.length > MOST) this.entries.shift();
    if (this.shows(entry)) this.list.prepend(row(entry));
    while (this.list.children.length > MOST) this.list.lastElementChild?.remove();
    this.hint();
  }

  private shows(entry: LogEntry): boolean {
    return rank(entry) >= LEVELS.indexOf(this.level.value);
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

function rank(entry: LogEntry): number {
  const known = LEVELS.indexOf(entry.level.toLowerCase());
  return known < 0 ? LEVELS.length - 1 : known; // what is graver than an error, or unknown, is shown
}

function row(entry: LogEntry): HTMLElement {
  const item = element("li");
  const time = element("time", "quiet", new Date(entry.utc).toLocaleTimeString());
  time.dateTime = entry.utc;
  const level = entry.level.toLowerCase();
  item.append(time, element("span", `badge ${CLASSES[level] ?? "bad"}`, level), element("span", "strong", entry.component), element("span", "", entry.text));
  return item;
}
