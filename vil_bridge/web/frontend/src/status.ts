// The bridge's status as REST and the updates send it: only what the pages show. See docs/reference/rest.md.

export interface Report {
  state: "starting" | "waiting" | "running" | "retrying" | "stopped";
  reason: string;
  since_ns: number;
  last_error: string | null;
  retries: number;
  counters: Record<string, number>;
  facts: Record<string, unknown>;
}

export interface Source {
  report: Report;
  type: string;
  frames: number;
  rate_hz: number;
  age_s: number | null;
  clock: { method: string; offset_ns: number | null; uncertainty_ns: number | null; drift_ppm: number | null };
  /** Why it is worse than it should be although data flow, and the cure. */
  degraded?: string;
}

export interface Actor {
  kind: string;
  source: string;
  subject: string;
  state: "tracked" | "coasting" | "frozen" | "stale" | "lost";
  age_s: number | null;
  p_world_m: [number, number, number] | null;
  speed_mps: number | null;
  seen: Record<string, number>;
  problem: string;
}

export interface Renderer {
  report: Report;
  type: string;
  in_flight: number;
  cameras: string[];
  pictures_hz: number;
  render_ms: number | null;
  utilisation: number;
  note: string;
}

export interface Percentiles {
  count: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  max_ms: number | null;
}

export interface Stage {
  last_10_s: Percentiles;
  since_start: Percentiles;
  /** Cumulative: `counts[i]` samples since the start took at most `edges_s[i]`; the last edge, null, is infinite. */
  histogram: { edges_s: (number | null)[]; counts: number[] };
}

export interface Camera {
  actor: string;
  renderer: string;
  assigned: string;
  modalities: string[];
  width_px: number;
  height_px: number;
  rate_hz: number;
  measured_hz: number;
  in_flight: number;
  dropped: Record<string, number>;
  age_s: number | null;
  compensation: {
    method: string;
    d_m: number | null;
    angle_rad: number | null;
    valid_fraction: number | null;
    horizon_ns: number | null;
    imu_age_ns: number | null;
  } | null;
  /** Why no pictures go out, and the cure; empty while they do. A bridge of another version may not say. */
  problem?: string;
  /** Why fewer pictures go out than asked, and the cure. */
  degraded?: string;
  collision: boolean | null;
  landmarks: unknown[];
  range_m: number | null;
  latency: Record<string, Stage>;
}

export interface Stream {
  frames: number;
  dropped: Record<string, number>;
  subscribers: Record<string, unknown>[];
}

export interface Simulation {
  clock: "real" | "simulated";
  paused: boolean;
  speed: number;
  reached: number;
  t_ns: number;
}

/** A racer now; `splits_s` by the number of the gate in the race, from 0. */
export interface Racer {
  /** waiting, ready, racing, or the outcome: finished, missed, collision, out_of_bounds, timed_out. */
  state: string;
  place: number;
  race_s: number;
  penalty_s: number;
  next_gate: string;
  passed: number;
  missed: number;
  collisions: number;
  laps_s: number[];
  splits_s: Record<string, number>;
  gap_s: number | null;
  due: number;
  pilot: string;
}

export interface Race {
  course: string;
  laps: number;
  gates: number;
  timeout_s: number | null;
  racers: Record<string, Racer>;
  arcade: boolean;
}

export interface Status {
  t_ns: number;
  name: string;
  version: string;
  uptime_s: number;
  ready: boolean;
  not_ready_because: string[];
  degraded_because: string[];
  /** Of REPLAY, FAULTS, REC, PAUSED: what is true now. */
  modes: string[];
  startup: Record<string, unknown>;
  sources: Record<string, Source>;
  actors: Record<string, Actor>;
  renderers: Record<string, Renderer>;
  cameras: Record<string, Camera>;
  streams: Record<string, Stream>;
  outputs: Record<string, { report: Report; type: string }>;
  faults: Record<string, Record<string, number>>;
  peer_faults: { port: string; peer: string; reason: string; count: number; age_s: number }[];
  warnings: { kind: string; actors: string[]; rooms: string[]; distance_m: number; in_s: number; text: string }[];
  loop_lag_s: number | null;
  overload: string[];
  process: { cpu_s: number; threads: number; rss_mb: number } | null;
  simulation: Simulation | null;
  /** Names of the parts of services that run. */
  services: string[];
  race: Race | null;
  twins: Record<string, Twin>;
  maps: Record<string, OccupancyMap>;
}

/** Distances of a vehicle's twin over its window; null = the two were not seen together, or too little moved. */
export interface Twin {
  vehicle: string;
  twin: string;
  alarm_m: number;
  alarm: boolean;
  episodes: number;
  compared_s: number;
  now_m: number | null;
  position_rms_m: number | null;
  attitude_rms_rad: number | null;
  hausdorff_m: number | null;
  delay_s: number | null;
}

/** A live map; `superseded` and `failed` are pictures that it did not take. */
export interface OccupancyMap {
  cameras: string[];
  resolution_m: number;
  free: number;
  occupied: number;
  pictures: number;
  superseded: number;
  failed: number;
  insert_ms: number;
  problem: string;
}

/** Ten minutes of a camera, a row a second, as columns; null = unknown. */
export interface History {
  utc_s: number[];
  rate_hz: number[];
  picture_age_s: (number | null)[];
  pose_age_s: (number | null)[];
  output_ms: (number | null)[];
  received_ms: (number | null)[];
}

/** An entry of the event log. */
export interface LogEntry {
  id: number;
  t_ns: number;
  utc: string;
  level: "info" | "warning" | "error";
  component: string;
  text: string;
}

export interface Recording {
  state: "idle" | "recording" | "failed";
  file: string;
  seconds: number;
  bytes: number;
  messages: number;
  lost: Record<string, number>;
  reason: string;
}

export interface RecordingFile {
  name: string;
  bytes: number;
  duration_s: number | null;
  readable: boolean;
  truncated: boolean;
  reason: string;
}

export interface Replay {
  state: "idle" | "playing" | "done" | "failed";
  file: string;
  position_s: number;
  duration_s: number;
  rate: number;
  loop: boolean;
  reason: string;
}

export interface Whoami {
  role: "none" | "view" | "control" | "metrics";
  token_required: boolean;
  insecure: boolean;
}
