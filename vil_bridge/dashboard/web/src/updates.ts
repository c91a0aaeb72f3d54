// The stream of updates: status, log and recording, as the bridge sends them; goes on by itself after a loss.

import { ask, ApiError } from "./api";
import type { LogEntry, Recording, Status } from "./status";

const SILENCE_MS = 3000; // the status comes twice a second
const AGAIN_MS = 1000;

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
    if (this.lostSince === null && this.live) return;
    this.live = true;
    this.lostSince = null;
    this.listeners.connection({ state: "live" });
  }

  private live = false;

  private listen(): void {
    clearTimeout(this.silence);
    this.silence = window.setTimeout(() => void this.lose("it is silent"), SILENCE_MS);
  }

  private async lose(why: string): Promise<void> {
    this.source?.close();
    clearTimeout(this.silence);
    this.live = false;
    this.lostSince ??= Date.now();
    const since = this.lostSince;
    this.listeners.connection({ state: "lost", since, why });
    try {
      await ask("GET", "whoami");
    } catch (error) {
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
        this.listeners.connection({ state: "refused", why: error.message });
      }
    }
    window.setTimeout(() => this.open(), AGAIN_MS);
  }
}
