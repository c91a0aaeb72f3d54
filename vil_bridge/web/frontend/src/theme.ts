// Dark and light: as the system says, until somebody chooses.

const KEY = "vil-theme";
const ORDER = ["system", "light", "dark"] as const;
type Theme = (typeof ORDER)[number];

function chosen(): Theme {
  const stored = localStorage.getItem(KEY);
  return ORDER.find((theme) => theme === stored) ?? "system";
}

/** Let the button switch between system, light and dark; `changed` hears of every change of colours. */
export function startTheme(button: HTMLButtonElement, changed: () => void): void {
  const apply = (theme: Theme): void => {
    document.documentElement.style.colorScheme = theme === "system" ? "light dark" : theme;
    button.textContent = `Theme: ${theme}`;
    changed();
  };
  button.addEventListener("click", () => {
    const next = ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length]!;
    localStorage.setItem(KEY, next);
    apply(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  apply(chosen());
}

/** A colour of the style sheet for canvases. */
export function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
