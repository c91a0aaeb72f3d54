/** What stands still in the world (`GET api/v1/scene`): loaded once, and again whenever its revision changes. */

import type { LiveFeed, Quat, Release, Vec3, Variant } from "../feed";

export interface PoseFact {
  p_m: Vec3;
  q_xyzw: Quat;
}

export interface RoomFact extends PoseFact {
  walls: { min_m: Vec3; max_m: Vec3 } | null;
  margin_m: number;
}

export interface ActorFact {
  name: string;
  kind: "vehicle" | "human" | "prop";
  size_m: Vec3;
  source: string;
  room: string;
  prefab: string;
  skeleton: { bones: string[]; parents: number[] } | null;
}

/** `T_body_camera`, x forward; actor "world" = fixed in the world. */
export interface CameraFact extends PoseFact {
  name: string;
  actor: string;
  width: number;
  height: number;
  fov_y_rad: number;
  rate_hz: number;
  variants: Variant[];
}

/** For so long a camera may send nothing before its last picture is old, ms: a slow one takes its time. */
export function patienceMs(camera: CameraFact): number {
  return Math.max(1500, 3000 / camera.rate_hz);
}

/** An opening to fly through along +x; width along y, height along z. */
export interface GateFact extends PoseFact {
  name: string;
  width_m: number;
  height_m: number;
}

/** Course of the race: names of the gates of one lap; `flying` = a lap ends at its first gate again. */
export interface CourseFact {
  name: string;
  laps: number;
  order: string[];
  flying: boolean;
  bounds_m: [Vec3, Vec3] | null;
}

export interface PropFact extends PoseFact {
  name: string;
  size_m: Vec3;
  prefab: string;
}

export interface SceneFacts {
  revision: number;
  name: string;
  rooms: Record<string, RoomFact>;
  actors: ActorFact[];
  cameras: CameraFact[];
  gates: GateFact[];
  props: PropFact[];
  model: string | null;
  course: CourseFact | null;
}

const RETRY_MS = 2_000;
const PATIENCE_MS = 8_000;

/** Keeps the facts as new as the poses. */
export class SceneStore {
  /** Null until the first answer. */
  facts: SceneFacts | null = null;

  private readonly takers = new Set<(facts: SceneFacts) => void>();
  private readonly releases: Release[];
  private loading = false;
  private notBefore = 0;

  constructor(
    feed: LiveFeed,
    private readonly path = "api/v1/scene",
  ) {
    this.releases = [
      feed.poses(1, (poses) => {
        if (poses.revision !== this.facts?.revision) void this.load();
      }),
      // Another bridge refuses pictures of a camera that it does not have, and the poses with them.
      feed.onState((state) => state === "lost" && this.reload()),
    ];
    void this.load();
  }

  /** Ask at once, whatever revision is known. */
  reload(): void {
    this.notBefore = 0;
    void this.load();
  }

  /** Get the facts, now if they are known, and at every change. */
  onChange(take: (facts: SceneFacts) => void): Release {
    this.takers.add(take);
    if (this.facts !== null) take(this.facts);
    return () => this.takers.delete(take);
  }

  close(): void {
    for (const release of this.releases) release();
    this.takers.clear();
  }

  /** Asks again with the next poses where there is no answer, but not more often than every other second. */
  private async load(): Promise<void> {
    if (this.loading || performance.now() < this.notBefore) return;
    this.loading = true;
    try {
      const answer = await fetch(this.path, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (answer.ok) this.tell((await answer.json()) as SceneFacts);
      else this.notBefore = performance.now() + RETRY_MS;
    } catch {
      this.notBefore = performance.now() + RETRY_MS;
    } finally {
      this.loading = false;
    }
  }

  private tell(facts: SceneFacts): void {
    if (facts.revision === this.facts?.revision) {
      this.notBefore = performance.now() + RETRY_MS;
      return;
    }
    this.facts = facts;
    for (const take of this.takers) take(facts);
  }
}
