/** Live occupancy maps in the world: occupied voxels as cubes, lighter the higher they are. */

import { BoxGeometry, Color, Group, InstancedMesh, Matrix4, MeshLambertMaterial } from "three";
import type { Release } from "../feed";
import { remove } from "./dispose";
import { packed, unpacked, VoxelSet } from "./octree";
import type { Palette } from "./palette";

const HALF = 32_768;
const AGAIN_MS = 2_000;
const LATEST_MS = 60_000;
const SHARE = 4; // a large map leaves this many times as much time to the page as its drawing takes
const DRAWN_MS = 500;
const MOST_CUBES = 300_000;
const SHADE = 0.45;

/** Follow the feed of a map; `changed` is called at most twice a second. */
export function followMap(name: string, changed: (voxels: VoxelSet) => void): Release {
  let socket: WebSocket, voxels = new VoxelSet(), again = 0, due = 0, waitMs = AGAIN_MS, drawnMs = DRAWN_MS;
  const show = (): void => {
    due = 0;
    const begunMs = performance.now();
    changed(voxels);
    drawnMs = Math.max(DRAWN_MS, SHARE * (performance.now() - begunMs));
  };
  const connect = (): void => {
    const url = new URL(`api/v1/maps/${encodeURIComponent(name)}/live`, document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    voxels = new VoxelSet();
    socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onclose = () => (again = window.setTimeout(connect, waitMs));
    socket.onmessage = ({ data }) => {
      try {
        voxels.take(data as ArrayBuffer);
        waitMs = AGAIN_MS;
        due ||= window.setTimeout(show, drawnMs);
      } catch (error) {
        console.warn(`map ${name}: ${(error as Error).message}`);
        waitMs = Math.min(2 * waitMs, LATEST_MS); // a map that is too large stays so
        socket.close(); // the next connection begins with the whole map
      }
    };
  };
  connect();
  return () => {
    window.clearTimeout(again);
    window.clearTimeout(due);
    socket.onclose = null;
    socket.close();
  };
}

/** Packed keys that can be seen: those with a free or unknown neighbour. */
export function surface(occupied: ReadonlySet<number>): number[] {
  const steps = [packed([1, 0, 0]), packed([0, 1, 0]), packed([0, 0, 1])];
  return [...occupied].filter((code) => steps.some((step) => !occupied.has(code + step) || !occupied.has(code - step)));
}

export class MapLayer extends Group {
  private readonly feeds = new Map<string, Release>();
  private readonly clouds = new Map<string, InstancedMesh>();

  constructor(
    private readonly palette: () => Palette,
    private readonly changed: () => void,
  ) {
    super();
  }

  /** Follow these maps and no other. */
  follow(names: readonly string[]): void {
    for (const [name, release] of this.feeds) {
      if (names.includes(name)) continue;
      release();
      this.feeds.delete(name);
      this.take(name);
    }
    for (const name of names) {
      if (!this.feeds.has(name)) this.feeds.set(name, followMap(name, (voxels) => this.show(name, voxels)));
    }
  }

  private show(name: string, voxels: VoxelSet): void {
    this.take(name);
    const codes = surface(voxels.occupied).slice(0, MOST_CUBES);
    if (codes.length > 0) this.clouds.set(name, cubes(codes, voxels.resolution_m, this.palette().map));
    this.add(...this.clouds.values());
    this.changed();
  }

  private take(name: string): void {
    const cloud = this.clouds.get(name);
    if (cloud !== undefined) remove(cloud);
    this.clouds.delete(name);
  }
}

function cubes(codes: readonly number[], side_m: number, colour: Color): InstancedMesh {
  const mesh = new InstancedMesh(new BoxGeometry(side_m, side_m, side_m), new MeshLambertMaterial(), codes.length);
  const heights = codes.map((code) => unpacked(code)[2]);
  const [low, high] = heights.reduce(([least, most], z) => [Math.min(least, z), Math.max(most, z)], [Infinity, -Infinity]);
  const place = new Matrix4(), shade = new Color();
  codes.forEach((code, i) => {
    const [x, y, z] = unpacked(code).map((key) => (key - HALF + 0.5) * side_m) as [number, number, number];
    mesh.setMatrixAt(i, place.makeTranslation(x, y, z));
    const height = (heights[i]! - low!) / Math.max(1, high! - low!);
    mesh.setColorAt(i, shade.copy(colour).multiplyScalar(1 - SHADE * (1 - height)));
  });
  return mesh;
}
