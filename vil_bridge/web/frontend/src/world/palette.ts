/** Colours of the world, taken from the page's style sheet, so that both themes are written in one place. */

import { Color } from "three";
import { STATES, type Release, type TrackingState } from "../feed";
import { colour } from "../theme";

const NAMES = ["ground", "grid", "room", "wall", "warning", "thing", "map", "gate", "gate-next", "gate-after", "camera", "light", "shade"] as const;

export type Palette = Record<(typeof NAMES)[number], Color> & { states: Record<TrackingState, Color> };

/** The `--world-*` colours as they are now; those of the tracking states are named like them. */
export function readPalette(): Palette {
  const read = (name: string): Color => new Color(colour(`world-${name.replace(" ", "-")}`));
  return {
    ...(Object.fromEntries(NAMES.map((name) => [name, read(name)])) as Record<(typeof NAMES)[number], Color>),
    states: Object.fromEntries(STATES.map((state) => [state, read(state)])) as Record<TrackingState, Color>,
  };
}

/** Get notice when the theme changes: the system's, or the one chosen on the page. */
export function onTheme(take: () => void): Release {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = new MutationObserver(take);
  system.addEventListener("change", take);
  chosen.observe(document.documentElement, { attributes: true, attributeFilter: ["style"] });
  return () => {
    system.removeEventListener("change", take);
    chosen.disconnect();
  };
}
