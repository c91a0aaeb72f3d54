// The stream of updates: status, log and recording, as the bridge sends them; goes on by itself after a loss.

import type { LogEntry, Recording, Status } from "./status";

const SILENCE_MS = 3000; // the status comes twice a second
const AGAIN_MS = 1000;
const PATIENCE_MS = 8000;

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; since: number; why: string }
  | { state: "refused"; why: string };

export interface Listeners {
  status: (status: Status) => void;
  log: (entry: LogEntry) => void;
  recording: (recording: Recording) => void;
  connection: (connection: Connection) => void;
}

export class Updates {
  private source: EventSource | null = null;
  private state: Connection["state"] = "connecting";
  private lostSince: number | null = null;
  private silence = 0;

  constructor(private readonly listeners: Listeners) {
    listeners.connection({ state: "connecting" });
    this.open();
  }

  private open(): void {
    const source = (this.source = new EventSource("api/v1/updates"));
    const on = <T>(name: string, take: (value: T) => void): void => {
      source.addEventListener(name, (event) => {
        this.heard();
        take(JSON.parse((event as MessageEvent<string>).data) as T);
      });
    };
    on<Status>("status", this.listeners.status);
    on<LogEntry>("log", this.listeners.log);
    on<Recording>("recording", this.listeners.recording);
    source.addEventListener("error", () => void this.lose("the connection ended"));
    this.listen();
  }

  private heard(): void {
    this.listen();
    if (this.state === "live") return;
    this.lostSince = null;
    this.tell({ state: "live" });
  }

  private listen(): void {
    clearTimeout(this.silence);
    this.silence = window.setTimeout(() => void this.lose("it is silent"), SILENCE_MS);
  }

  private async lose(why: string): Promise<void> {
    this.source?.close();
    clearTimeout(this.silence);
    this.lostSince ??= Date.now();
    const lost: Connection = { state: "lost", since: this.lostSince, why };
    if (this.state === "live") this.tell(lost); // at once: the answer may take long
    const refusal = await refusalOf("api/v1/updates");
    this.tell(refusal === "" ? lost : { state: "refused", why: refusal });
    window.setTimeout(() => this.open(), AGAIN_MS);
  }

  private tell(connection: Connection): void {
    this.state = connection.state;
    this.listeners.connection(connection);
  }
}

/** Why the bridge refuses a stream, in its own words; "" where it does not. An EventSource does not report it. */
async function refusalOf(path: string): Promise<string> {
  try {
    const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!answer.ok) return ((await answer.json()) as { detail: string }).detail;
    await answer.body?.cancel();
  } catch {
    // There is no answer, or it is not the bridge's.
  }
  return "";
}
