// Numbers and times for people: with units, and unknown shown as unknown.

export const UNKNOWN = "–";
const NARROW = "\u202f"; // a narrow space that does not break

type Value = number | null | undefined;

export function number(value: Value, unit = "", digits = 1): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return unit ? text + NARROW + unit : text;
}

export const count = (value: Value): string => number(value, "", 0);

/** Seconds, in a unit that fits. */
export function duration(seconds: Value): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 1) return number(1e3 * seconds, "ms", 0);
  if (seconds < 120) return number(seconds, "s", 1);
  if (seconds < 7200) return number(seconds / 60, "min", 0);
  return number(seconds / 3600, "h", 1);
}

/** Small times in nanoseconds, in a unit that fits. */
export function smallTime(ns: Value): string {
  if (ns === null || ns === undefined) return UNKNOWN;
  if (Math.abs(ns) < 1e6) return number(ns / 1e3, "µs", 0);
  return Math.abs(ns) < 1e9 ? number(ns / 1e6, "ms", 2) : number(ns / 1e9, "s", 3);
}

/** Minutes and seconds, as players show them. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export function bytes(size: Value): string {
  if (size === null || size === undefined) return UNKNOWN;
  return size < 1e6 ? number(size / 1e3, "kB", 0) : number(size / 1e6, "MB", 1);
}

/** Counters that have counted something. */
export function counters(counts: Record<string, number>): string {
  const some = Object.entries(counts).filter(([, value]) => value > 0);
  return some.map(([name, value]) => `${name.replaceAll("_", " ")} ${count(value)}`).join(", ");
}

const short = (_key: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;

/** Facts about a peer, whatever they are. */
export function facts(entries: Record<string, unknown>): string {
  return Object.entries(entries)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => {
      if (Array.isArray(value)) return `${name}: ${value.join(", ")}`;
      return `${name}: ${typeof value === "object" ? JSON.stringify(value, short) : String(short(name, value))}`;
    })
    .join(" · ");
}

const DEGREES = 180 / Math.PI;
export const degrees = (rad: Value): number | null => (rad === null || rad === undefined ? null : rad * DEGREES);

/** When something happened: the time, and before today the date. */
export function moment(utc: string | number): string {
  const then = new Date(utc);
  return then.toDateString() === new Date().toDateString() ? then.toLocaleTimeString() : then.toLocaleString();
}
