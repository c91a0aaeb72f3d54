// Services without a panel of their own: their parts of the status as tables.

import { element } from "../dom";
import { UNKNOWN, number } from "../format";
import type { Status } from "../status";
import { right, setTable, strong, type Cell, type Column, type Row } from "../table";

/** Parts that the page shows elsewhere. */
const SHOWN = new Set(["maps", "race", "twins", "warnings"]);

/** Units by the last word of a field's name. */
const UNITS: Record<string, string> = {
  a: "A", deg: "°", degc: "°C", hz: "Hz", m: "m", mah: "mAh", mb: "MB", mps: "m/s", ms: "ms",
  rad: "rad", radps: "rad/s", ratio: "%", s: "s", v: "V", w: "W",
};

type Entry = Record<string, unknown>;

interface Table {
  columns: Column[];
  rows: Row[];
}

/** A part of the status as a table: a row for each of its entries, a column for each field. */
export function tableOf(part: unknown): Table {
  const entries = entriesOf(part);
  const fields = [...new Set(entries.flatMap(([, entry]) => Object.keys(entry)))];
  const titles = titlesOf(fields);
  const columns: Column[] = fields.map((field, place) => [titles[place]!, isNumber(entries, field) ? "number" : ""]);
  const rows = entries.map(([name, entry]): Row => [strong(name), ...fields.map((field) => cellOf(field, entry[field]))]);
  return { columns: [["name"], ...columns], rows };
}

export class ServicesPanel {
  private readonly tables = new Map<string, HTMLTableElement>();

  constructor(private readonly host: HTMLElement) {}

  show(now: Status): void {
    for (const name of now.services) {
      if (SHOWN.has(name)) continue;
      const { columns, rows } = tableOf(now[name as keyof Status]);
      const table = this.tables.get(name) ?? this.add(name);
      setTable(table, columns, rows);
      table.closest("section")!.hidden = rows.length === 0;
    }
  }

  private add(name: string): HTMLTableElement {
    const section = element("section");
    const head = element("h2", "", titleOf(name));
    head.id = `h-service-${name}`;
    section.setAttribute("aria-labelledby", head.id);
    const scroll = element("div", "scroll");
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-labelledby", head.id);
    scroll.tabIndex = 0;
    const table = element("table");
    scroll.append(table);
    section.append(head, scroll);
    this.host.append(section);
    this.tables.set(name, table);
    return table;
  }
}

/** Entries by name, in a list, or the part as the only one. */
function entriesOf(part: unknown): [name: string, entry: Entry][] {
  if (part === null || part === undefined) return [];
  if (Array.isArray(part)) return part.map((entry: Entry, index) => [String(index + 1), entry]);
  const values = Object.entries(part as Entry);
  if (values.every(([, value]) => isEntry(value))) return values as [string, Entry][];
  return [["", part as Entry]];
}

const isEntry = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

const isNumber = (entries: [string, Entry][], field: string): boolean =>
  entries.some(([, entry]) => typeof entry[field] === "number");

function unitOf(field: string): string {
  const words = field.split("_");
  return words.length > 1 ? (UNITS[words.at(-1)!] ?? "") : "";
}

/** Titles without units, but for those that two fields would have. */
function titlesOf(fields: string[]): string[] {
  const short = fields.map(titleOf);
  return fields.map((field, place) => {
    const alike = short.filter((title) => title === short[place]);
    return alike.length > 1 ? field.replaceAll("_", " ") : short[place]!;
  });
}

/** Words of a field's name without its unit. */
function titleOf(field: string): string {
  const words = field.split("_");
  if (unitOf(field)) words.pop();
  return words.join(" ");
}

function cellOf(field: string, value: unknown): Cell | string {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return numberCell(field, value);
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function numberCell(field: string, value: number): Cell {
  const unit = unitOf(field);
  if (unit === "%") return right(number(100 * value, unit, 0));
  return right(number(value, unit, Number.isInteger(value) ? 0 : 2));
}
