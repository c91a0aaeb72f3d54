/** Occupied voxels of a live map: read from OctoMap's binary tree, and changed by the messages of its feed. */

const DEPTH = 16;
const HEADER_BYTES = 65_536;
const MOST_VOXELS = 2_000_000;
const OCCUPIED = 2;
const INNER = 3;
const VERSION = 1;
const WHOLE_MAP = 3;
const CHANGES = 4;
const SNAPSHOT_BYTES = 16;
const CHANGES_BYTES = 24;
const VOXEL_BYTES = 8;

export type Key = [x: number, y: number, z: number];

/** One number for the key of a voxel: 16 bits for each axis. */
export function packed([x, y, z]: Key): number {
  return x + 0x10000 * y + 0x100000000 * z;
}

export function unpacked(code: number): Key {
  return [code % 0x10000, Math.floor(code / 0x10000) % 0x10000, Math.floor(code / 0x100000000)];
}

/** A map as its feed tells it; `take` throws RangeError for a message that is malformed or does not follow. */
export class VoxelSet {
  /** Occupied voxels, packed. */
  occupied = new Set<number>();
  /** Side of a voxel; 0 before the first message. */
  resolution_m = 0;
  private number = 0;

  take(message: ArrayBuffer): void {
    const view = new DataView(message);
    if (view.getUint8(1) !== VERSION) throw new RangeError(`version ${view.getUint8(1)} is not known`);
    if (view.getUint8(0) === WHOLE_MAP) this.replace(new Uint8Array(message, SNAPSHOT_BYTES));
    else if (view.getUint8(0) === CHANGES) this.change(view);
    else throw new RangeError(`kind ${view.getUint8(0)} is not known`);
    this.number = view.getUint32(4, true);
  }

  private replace(tree: Uint8Array): void {
    const { resolution_m, nodes, data } = header(tree);
    this.occupied = nodes === 0 ? new Set() : occupiedOf(data);
    this.resolution_m = resolution_m;
  }

  private change(view: DataView): void {
    const since = view.getUint32(16, true), count = view.getUint32(20, true);
    if (since !== this.number) throw new RangeError(`changes since ${since}, but the map is ${this.number}`);
    for (let at = CHANGES_BYTES; at < CHANGES_BYTES + count * VOXEL_BYTES; at += VOXEL_BYTES) {
      const code = packed([view.getUint16(at, true), view.getUint16(at + 2, true), view.getUint16(at + 4, true)]);
      if (view.getUint8(at + 6) === OCCUPIED) this.occupied.add(code);
      else this.occupied.delete(code);
    }
  }
}

function header(tree: Uint8Array): { resolution_m: number; nodes: number; data: DataView } {
  const text = new TextDecoder("latin1").decode(tree.subarray(0, HEADER_BYTES));
  const end = text.indexOf("\ndata\n");
  const field = (name: string): number => Number(new RegExp(`\n${name} (\\S+)`).exec(text.slice(0, end))?.[1]);
  const resolution_m = field("res"), nodes = field("size");
  if (end < 0 || !(resolution_m > 0) || !(nodes >= 0)) throw new RangeError("not a binary tree of OctoMap");
  return { resolution_m, nodes, data: new DataView(tree.buffer, tree.byteOffset + end + 6) };
}

/** Two bytes for each inner node, depth first: two bits for each child, the x bit of its place lowest. */
function occupiedOf(data: DataView): Set<number> {
  const found = new Set<number>();
  let at = 0;
  const visit = (x: number, y: number, z: number, side: number): void => {
    const pairs = data.getUint16(at, true);
    at += 2;
    const half = side / 2;
    for (let child = 0; child < 8; child += 1) {
      const state = (pairs >> (2 * child)) & 3;
      const place: Key = [x + half * (child & 1), y + half * ((child >> 1) & 1), z + half * (child >> 2)];
      if (state === OCCUPIED) fill(found, place, half);
      else if (state === INNER && half < 2) throw new RangeError("the tree is too deep");
      else if (state === INNER) visit(...place, half);
    }
  };
  visit(0, 0, 0, 2 ** DEPTH);
  return found;
}

function fill(found: Set<number>, [x, y, z]: Key, side: number): void {
  if (found.size + side ** 3 > MOST_VOXELS) throw new RangeError(`more than ${MOST_VOXELS} occupied voxels`);
  for (let i = 0; i < side; i += 1) {
    for (let j = 0; j < side; j += 1) {
      for (let k = 0; k < side; k += 1) found.add(packed([x + i, y + j, z + k]));
    }
  }
}
