// Flies a simulated vehicle over REST: sticks to velocities along its own heading, 25 times a second.
//
// Nothing is sent while the page is hidden or has no focus: the vehicle then hovers after its `command_timeout_ms`.

import { ApiError, ask, part } from "../api";
import type { Quat } from "../feed";
import { towards } from "./numbers";
import { AXES, centred, HeldKeys, isCentred, Pad, type Sticks, stronger } from "./sticks";

const PERIOD_MS = 40;
const PATIENCE_MS = 1000;
const ACCELERATION_MPS2 = 12; // the autopilot smooths velocities by itself
const CLIMB_SHARE = 0.6;
const TURN_RADPS = 1.6;
const TURN_RADPS2 = 6;

interface VehicleAnswer {
  q_world_body: Quat;
  modes: Record<string, { name: string }[]>;
}

export class Pilot {
  /** Full deflection, m/s. */
  speed_mps = 4;
  /** The simulated vehicle; empty = none. */
  vehicle = "";
  /** Hands off: in a countdown, and for those who may only look. */
  locked = true;

  readonly pad = new Pad();
  private readonly keys = new HeldKeys();
  /** Velocities of now, m/s, and rad/s: they follow the sticks smoothly. */
  private wanted: Sticks = centred();
  private yaw_rad: number | null = null;
  /** Of the vehicle's command for velocities. */
  private fields: string[] = [];
  private active = false;
  private asking = false;
  private lastMs = 0;

  /** `failed` is given what is wrong, "" = nothing any more. */
  constructor(private readonly failed: (why: string) => void) {
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("keyup", (event) => this.onKey(event));
    window.addEventListener("blur", () => this.leave());
    window.addEventListener("pagehide", () => this.leave());
    document.addEventListener("visibilitychange", () => document.hidden && this.leave());
    window.setInterval(() => void this.step(), PERIOD_MS);
  }

  /** Begin to send, before the first key. */
  begin(): void {
    this.wanted = centred();
    this.active = true;
  }

  /** Stop and hover: the page is left. */
  leave(): void {
    this.keys.release();
    if (!this.active) return;
    this.active = false;
    this.wanted = centred();
    this.failed("");
    if (this.vehicle === "" || this.locked || this.yaw_rad === null) return;
    const body = JSON.stringify(this.command(this.yaw_rad));
    // It outlives the page; where it does not arrive, the vehicle's own time-out stops it.
    void fetch(this.path(true), { method: "POST", body, keepalive: true }).catch(() => undefined);
  }

  private onKey(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLElement && event.target.closest("input, select, textarea, button, a, summary") !== null;
    if (event.type === "keydown" && (typing || event.ctrlKey || event.metaKey || event.altKey)) return;
    if (this.keys.take(event)) event.preventDefault();
  }

  private async step(): Promise<void> {
    const now = performance.now();
    const dt_s = Math.min(0.2, 1e-3 * (now - this.lastMs));
    this.lastMs = now;
    const sticks = stronger(this.keys.sticks(), this.pad.sticks());
    if (this.locked || this.vehicle === "" || !document.hasFocus()) return;
    this.active ||= !isCentred(sticks);
    if (!this.active) return;
    this.follow(sticks, dt_s);
    if (!this.asking) await this.send();
  }

  private follow(sticks: Sticks, dt_s: number): void {
    const full: Sticks = { forward: this.speed_mps, left: this.speed_mps, up: CLIMB_SHARE * this.speed_mps, turn: TURN_RADPS };
    for (const axis of AXES) {
      const rate = axis === "turn" ? TURN_RADPS2 : ACCELERATION_MPS2;
      this.wanted[axis] = towards(this.wanted[axis], sticks[axis] * full[axis], rate * dt_s);
    }
    if (this.yaw_rad !== null) this.yaw_rad += this.wanted.turn * dt_s;
  }

  /** The answer is the state before the command: its heading is that of the next one. */
  private async send(): Promise<void> {
    this.asking = true;
    try {
      if (this.yaw_rad === null) this.take(await ask<VehicleAnswer>("GET", this.path(false, ""), undefined, PATIENCE_MS));
      this.take(await ask<VehicleAnswer>("POST", this.path(), this.command(this.yaw_rad ?? 0), PATIENCE_MS));
      this.failed("");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.yaw_rad = null;
      this.failed(error.status === 0 ? "No connection: the vehicle hovers" : error.message);
    } finally {
      this.asking = false;
    }
  }

  private take({ q_world_body: [x, y, z, w], modes }: VehicleAnswer): void {
    this.fields = (modes["velocity"] ?? []).map(({ name }) => name);
    if (this.fields.length === 0) throw new ApiError(409, "this vehicle takes no velocities: choose another one");
    this.yaw_rad = Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z));
  }

  private path(whole = false, end = "/command"): string {
    return `${whole ? "api/v1/" : ""}vehicles/${part(this.vehicle)}${end}`;
  }

  /** In the room's axes, by the vehicle's fields, as `vil-bridge fly` sends it. */
  private command(yaw_rad: number): object {
    const { forward, left, up, turn } = this.wanted;
    const [c, s] = [Math.cos(yaw_rad), Math.sin(yaw_rad)];
    const v_world_mps = [c * forward - s * left, s * forward + c * left, up];
    const own: Record<string, number | number[]> = { v_world_mps, yaw_radps: turn, yaw_rate_radps: turn, yaw_by_rate: 1 };
    return { mode: "velocity", values: Object.fromEntries(this.fields.map((name) => [name, own[name] ?? 0])) };
  }
}
