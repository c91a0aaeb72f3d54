/**
 * The bridge's live feed: poses and previews over one WebSocket (docs/reference/rest.md has the bytes).
 *
 * Newest wins: what comes is handed on at once and nothing is queued. A lost connection is opened
 * again, after 0.5 s at first and 8 s at last. World ENU, metres, quaternions scalar last.
 */

export type Vec3 = [number, number, number];
export type Quat = [number, number, number, number];
export type Variant = "compensated" | "raw";
export type FeedState = "connecting" | "live" | "lost";

export const STATES = ["tracked", "coasting", "stale", "lost", "never seen", "frozen"] as const;
export type TrackingState = (typeof STATES)[number];

/** An actor at one instant; `age_s` and `speed_mps` are NaN while unknown. */
export interface ActorPose {
  index: number;
  state: TrackingState;
  age_s: number;
  p_world_m: Vec3;
  q_xyzw: Quat;
  speed_mps: number;
}

/** The bones of one actor: 7 numbers each, p_world_m and q_xyzw. */
export interface SkeletonPose {
  index: number;
  bones: Float32Array;
}

/** Everybody at one instant of the bridge's clock; `revision` says which scene the indices are of. */
export interface Poses {
  revision: number;
  t_s: number;
  actors: ActorPose[];
  skeletons: SkeletonPose[];
}

/** Header of a preview; null is unknown. */
export interface PreviewHeader {
  camera: string;
  variant: Variant;
  frame_id: number;
  /** Black on purpose: the carrier is lost. */
  blank: boolean;
  t_capture_ns: number;
  t_image_ns: number;
  age_s: number | null;
  angle_rad: number | null;
  width: number;
  height: number;
  K: number[];
  /** Of the optical axes (x right, y down, z ahead) in the world; a bridge of another version may not say. */
  pose?: { p_m: Vec3; q_xyzw: Quat } | null;
}

export interface Preview {
  header: PreviewHeader;
  jpeg: Blob;
}

export type Release = () => void;

const VERSION = 1;
const POSES = 1;
const PREVIEW = 2;
const HEAD_BYTES = 16;
const ACTOR_BYTES = 40;
const BONE_FLOATS = 7;
const MOST_PREVIEWS = 8;
const FIRST_WAIT_MS = 500;
const LAST_WAIT_MS = 8_000;
const SILENCE_MS = 5_000;

interface PreviewWish {
  camera: string;
  variant: Variant;
  hz: number;
  take: (preview: Preview) => void;
}

interface PosesWish {
  hz: number;
  take: (poses: Poses) => void;
}

/** One connection for the whole page; each subscriber gets a function that ends its subscription. */
export class LiveFeed {
  /** The newest poses, null before the first. */
  newest: Poses | null = null;
  state: FeedState = "connecting";
  /** What the bridge said when it ended the connection, if anything. */
  reason = "";
  /** Messages that were not understood. */
  malformed = 0;

  private readonly posesWishes = new Set<PosesWish>();
  private readonly previewWishes = new Set<PreviewWish>();
  private readonly stateTakers = new Set<(state: FeedState) => void>();
  private socket: WebSocket | null = null;
  private waitMs = FIRST_WAIT_MS;
  private retry = 0;
  private watchdog = 0;
  private lastPosesMs = 0;
  private askedMs = 0;
  private asked = "";

  /** `sleeps`: ask for nothing while the page is hidden. */
  constructor(
    private readonly path = "api/v1/live",
    private readonly sleeps = true,
  ) {
    document.addEventListener("visibilitychange", this.ask);
    this.watchdog = window.setInterval(() => this.look(), 1_000);
    this.connect();
  }

  /** Get every pose message, at least `hz` times a second (30 at most). */
  poses(hz: number, take: (poses: Poses) => void): Release {
    return this.wish(this.posesWishes, { hz, take });
  }

  /** Get a camera's pictures; of more than 8 different ones the first come. */
  preview(camera: string, variant: Variant, hz: number, take: (preview: Preview) => void): Release {
    return this.wish(this.previewWishes, { camera, variant, hz, take });
  }

  /** Get the connection's state, now, at every change, and of every attempt that fails. */
  onState(take: (state: FeedState) => void): Release {
    this.stateTakers.add(take);
    take(this.state);
    return () => this.stateTakers.delete(take);
  }

  /** End the connection for good. */
  close(): void {
    document.removeEventListener("visibilitychange", this.ask);
    window.clearInterval(this.watchdog);
    window.clearTimeout(this.retry);
    this.drop();
  }

  private wish<T>(wishes: Set<T>, wish: T): Release {
    wishes.add(wish);
    queueMicrotask(this.ask);
    return () => {
      wishes.delete(wish);
      queueMicrotask(this.ask);
    };
  }

  private connect(): void {
    const url = new URL(this.path, document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.asked = "";
      this.lastPosesMs = performance.now();
      this.ask();
    };
    socket.onmessage = (event) => {
      this.waitMs = FIRST_WAIT_MS;
      this.tell("live");
      this.take(event.data as ArrayBuffer);
    };
    socket.onclose = ({ reason }) => this.again(reason);
    this.socket = socket;
    this.askedMs = performance.now();
  }

  private again(reason = ""): void {
    this.reason = reason;
    this.drop();
    this.tell("lost");
    this.retry = window.setTimeout(() => this.connect(), this.waitMs * (0.75 + 0.5 * Math.random()));
    this.waitMs = Math.min(2 * this.waitMs, LAST_WAIT_MS);
  }

  private drop(): void {
    if (this.socket !== null) {
      this.socket.onclose = this.socket.onmessage = this.socket.onopen = null;
      this.socket.close();
      this.socket = null;
    }
  }

  /** A network that went away without a word: browsers do not report it. */
  private look(): void {
    if (this.socket?.readyState === WebSocket.CONNECTING && performance.now() - this.askedMs > SILENCE_MS) {
      this.again(); // browsers wait for minutes
      return;
    }
    const silent = performance.now() - this.lastPosesMs > SILENCE_MS;
    if (silent && this.awake() && this.posesWishes.size > 0 && this.socket?.readyState === WebSocket.OPEN) {
      this.again();
    }
  }

  private awake(): boolean {
    return !(this.sleeps && document.hidden);
  }

  /** Send the subscription to the server, if it changed. */
  private readonly ask = (): void => {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const asked = JSON.stringify(this.awake() ? this.wanted() : { poses_hz: 0, previews: [] });
    if (asked === this.asked) return;
    this.asked = asked;
    this.lastPosesMs = performance.now();
    this.socket.send(asked);
  };

  private wanted(): object {
    const previews = new Map<string, { camera: string; variant: Variant; hz: number }>();
    for (const { camera, variant, hz } of this.previewWishes) {
      const key = `${variant} ${camera}`;
      previews.set(key, { camera, variant, hz: Math.max(hz, previews.get(key)?.hz ?? 0) });
    }
    return {
      poses_hz: Math.max(0, ...[...this.posesWishes].map((wish) => wish.hz)),
      // The bridge serves so many: those that people look at closely come first.
      previews: [...previews.values()].sort((a, b) => b.hz - a.hz).slice(0, MOST_PREVIEWS),
    };
  }

  private take(data: ArrayBuffer): void {
    let message: Poses | Preview;
    try {
      message = decode(data);
    } catch {
      this.malformed += 1;
      return;
    }
    if ("jpeg" in message) {
      const { camera, variant } = message.header;
      for (const wish of this.previewWishes) {
        if (wish.camera === camera && wish.variant === variant) wish.take(message);
      }
    } else {
      this.newest = message;
      this.lastPosesMs = performance.now();
      for (const wish of this.posesWishes) wish.take(message);
    }
  }

  private tell(state: FeedState): void {
    if (state === this.state && state !== "lost") return;
    this.state = state;
    for (const take of this.stateTakers) take(state);
  }
}

/** A message of the feed; throws RangeError or SyntaxError for anything else. */
export function decode(data: ArrayBuffer): Poses | Preview {
  const view = new DataView(data);
  if (view.getUint8(1) !== VERSION) throw new RangeError(`version ${view.getUint8(1)} is not known`);
  switch (view.getUint8(0)) {
    case POSES:
      return decodePoses(view);
    case PREVIEW:
      return decodePreview(data, view.getUint16(2, true));
    default:
      throw new RangeError(`kind ${view.getUint8(0)} is not known`);
  }
}

function decodePoses(view: DataView): Poses {
  const count = view.getUint16(2, true);
  const actors = Array.from({ length: count }, (_, i) => decodeActor(view, HEAD_BYTES + i * ACTOR_BYTES));
  const end = HEAD_BYTES + count * ACTOR_BYTES;
  const skeletons: SkeletonPose[] = [];
  let at = end + 2;
  for (let left = view.getUint16(end, true); left > 0; left -= 1) {
    const bones = decodeFloats(view, at + 4, BONE_FLOATS * view.getUint16(at + 2, true));
    skeletons.push({ index: view.getUint16(at, true), bones });
    at += 4 + bones.byteLength;
  }
  return { revision: view.getUint32(4, true), t_s: Number(view.getBigInt64(8, true)) / 1e9, actors, skeletons };
}

function decodeActor(view: DataView, at: number): ActorPose {
  const state = STATES[view.getUint8(at + 2)];
  if (state === undefined) throw new RangeError("tracking state is not known");
  const [age_s, x, y, z, qx, qy, qz, qw, speed_mps] = decodeFloats(view, at + 4, 9) as unknown as number[];
  return {
    index: view.getUint16(at, true),
    state,
    age_s: age_s as number,
    p_world_m: [x, y, z] as Vec3,
    q_xyzw: [qx, qy, qz, qw] as Quat,
    speed_mps: speed_mps as number,
  };
}

/** Bones lie at odd places, where no Float32Array may begin. */
function decodeFloats(view: DataView, at: number, count: number): Float32Array {
  const floats = new Float32Array(count);
  for (let i = 0; i < count; i += 1) floats[i] = view.getFloat32(at + 4 * i, true);
  return floats;
}

function decodePreview(data: ArrayBuffer, length: number): Preview {
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length))) as PreviewHeader;
  return { header, jpeg: new Blob([data.slice(4 + length)], { type: "image/jpeg" }) };
}
