// Sticks of a person: keys that are held, or a gamepad, the stronger of each axis.

import { clamped } from "./numbers";

/** Each -1 to 1; `left` and `turn` are to the left, as in `vil-bridge fly`. */
export interface Sticks {
  forward: number;
  left: number;
  up: number;
  turn: number;
}

export type Axis = keyof Sticks;

export const AXES: Axis[] = ["forward", "left", "up", "turn"];
const KEYS: Record<string, [Axis, number]> = {
  KeyW: ["forward", 1], KeyS: ["forward", -1],
  KeyA: ["left", 1], KeyD: ["left", -1],
  KeyQ: ["turn", 1], KeyE: ["turn", -1], ArrowLeft: ["turn", 1], ArrowRight: ["turn", -1],
  KeyR: ["up", 1], KeyF: ["up", -1], ArrowUp: ["up", 1], ArrowDown: ["up", -1],
};
/** Axes of the standard gamepad: left stick x and y, right stick x and y; to the right and back are positive. */
const PAD: Record<Axis, number> = { turn: 0, up: 1, left: 2, forward: 3 };
const DEAD_ZONE = 0.1;
const START_BUTTONS = [0, 9];

export const centred = (): Sticks => ({ forward: 0, left: 0, up: 0, turn: 0 });

/** Keys that are held, by their place on the keyboard, whatever is printed on them. */
export class HeldKeys {
  private readonly held = new Set<string>();

  /** Take a key event; true if the key is one of ours. */
  take(event: KeyboardEvent): boolean {
    if (!(event.code in KEYS)) return false;
    if (event.type === "keydown") this.held.add(event.code);
    else this.held.delete(event.code);
    return true;
  }

  release(): void {
    this.held.clear();
  }

  sticks(): Sticks {
    const sticks = centred();
    for (const code of this.held) {
      const [axis, value] = KEYS[code]!;
      sticks[axis] = clamped(sticks[axis] + value, -1, 1);
    }
    return sticks;
  }
}

/** The first gamepad with two sticks; browsers show it once one of its buttons was pressed. */
export class Pad {
  private wasPressed = false;

  private get pad(): Gamepad | null {
    return [...navigator.getGamepads()].find((pad) => pad?.connected === true && pad.axes.length >= 4) ?? null;
  }

  get name(): string {
    return this.pad?.id ?? "";
  }

  sticks(): Sticks {
    const axes = this.pad?.axes ?? [];
    return Object.fromEntries(AXES.map((axis) => [axis, deflection(axes[PAD[axis]] ?? 0)])) as unknown as Sticks;
  }

  /** True once for each press of a start button. */
  startPressed(): boolean {
    const pressed = START_BUTTONS.some((button) => this.pad?.buttons[button]?.pressed === true);
    const pressedNow = pressed && !this.wasPressed;
    this.wasPressed = pressed;
    return pressedNow;
  }
}

/** Without the dead zone; forward, left and up are negative on a gamepad. */
function deflection(value: number): number {
  const share = (Math.abs(value) - DEAD_ZONE) / (1 - DEAD_ZONE);
  return share <= 0 ? 0 : -Math.sign(value) * Math.min(1, share);
}

export function stronger(a: Sticks, b: Sticks): Sticks {
  return Object.fromEntries(AXES.map((axis) => [axis, Math.abs(b[axis]) > Math.abs(a[axis]) ? b[axis] : a[axis]])) as unknown as Sticks;
}

export const isCentred = (sticks: Sticks): boolean => AXES.every((axis) => sticks[axis] === 0);
