// Numbers that move within limits.

export const clamped = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value));

/** Move a value towards a goal, at most by a step. */
export const towards = (value: number, goal: number, step: number): number => value + clamped(goal - value, -step, step);
