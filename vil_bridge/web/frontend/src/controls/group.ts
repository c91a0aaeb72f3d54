// A group of controls: it folds, says what came of a command, and is locked with a reason for those who may only look.

import { ApiError } from "../api";
import { element, setClass, setText } from "../dom";

export class Group {
  readonly node = element("details", "group");
  /** What the group is about, in a few words after its title. */
  readonly brief = element("small");
  protected readonly body = element("fieldset");
  private readonly answer = element("p", "answer");
  private busy = false;

  constructor(title: string, private readonly opened: () => void = () => undefined) {
    const summary = element("summary", "", `${title} `);
    summary.append(this.brief);
    const legend = element("legend", "hidden", title);
    this.body.append(legend);
    this.answer.setAttribute("role", "status");
    this.node.append(summary, this.body, this.answer);
    this.node.addEventListener("toggle", () => {
      if (this.node.open) opened();
    });
  }

  /** Lock it, for those who may only look. */
  lock(locked: boolean): void {
    this.body.disabled = locked;
  }

  /** Ask again: another bridge may have answered before. */
  refresh(): void {
    this.say("");
    if (this.node.open) this.opened();
    else setText(this.brief, "");
  }

  say(text: string, className = ""): void {
    setText(this.answer, text);
    setClass(this.answer, `answer ${className}`);
  }

  /** Do something and say what came of it. */
  async attempt(action: () => Promise<string | void>): Promise<void> {
    try {
      this.say((await action()) ?? "");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.say(error.message, "bad");
    }
  }

  /** The same for a button: pressed twice it acts once. */
  private async press(action: () => Promise<string | void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    await this.attempt(action).finally(() => (this.busy = false));
  }

  /** A form of this group; `submit` runs when the button is pressed or Enter is. */
  protected form(parts: Node[], submit: () => Promise<string | void>): HTMLFormElement {
    const form = element("form", "row");
    form.append(...parts);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.press(submit);
    });
    this.body.append(form);
    return form;
  }

  protected button(text: string, action: () => Promise<string | void>): HTMLButtonElement {
    const button = Object.assign(element("button", "", text), { type: "button" });
    button.addEventListener("click", () => void this.press(action));
    return button;
  }
}

export function submit(text: string): HTMLButtonElement {
  return Object.assign(element("button", "primary", text), { type: "submit" });
}

/** An input with its label; `unit` follows the label. */
export function field(label: string, input: HTMLElement, unit = ""): HTMLLabelElement {
  const node = element("label", "field", `${label} `);
  node.append(input);
  if (unit) node.append(element("span", "unit", ` ${unit}`));
  return node;
}

export function numberInput(value: number, options: { min?: number; max?: number; step?: number | "any" } = {}): HTMLInputElement {
  const { min, max, step = 0.1 } = options;
  const input = Object.assign(element("input", "short"), { type: "number", step: String(step), required: true });
  if (min !== undefined) input.min = String(min);
  if (max !== undefined) input.max = String(max);
  input.value = String(value);
  return input;
}

export function textInput(placeholder = "", pattern = ""): HTMLInputElement {
  const input = Object.assign(element("input"), { type: "text", placeholder, autocomplete: "off", spellcheck: false });
  if (pattern) input.pattern = pattern;
  return input;
}

export function setOptions(select: HTMLSelectElement, names: string[]): void {
  if ([...select.options].map((option) => option.value).join("\n") === names.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
}

export const valueOf = (input: HTMLInputElement): number => input.valueAsNumber;
