// The REST interface as a page: every operation with its parameters, an example, and a button that sends it.

import "../style.css";
import "./docs.css";

import { ask } from "../api";
import { byId, element, setText } from "../dom";
import { schemaText, type Description, type Operation, type Parameter } from "./openapi";

const ENDLESS = "text/event-stream";
const MOST_SHOWN = 100_000;
const PATIENCE_MS = 20_000;

void show();

async function show(): Promise<void> {
  try {
    const described = await ask<Description>("GET", "openapi.json");
    setText(byId("version"), described.info.version);
    byId("operations").replaceChildren(...sections(described));
    byId("filter").addEventListener("input", filter);
  } catch (error) {
    const trouble = byId("trouble");
    setText(trouble, `The description cannot be read: ${(error as Error).message}`);
    trouble.hidden = false;
  }
}

function sections(described: Description): HTMLElement[] {
  const byTag = new Map<string, HTMLElement>();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      const section = byTag.get(tag) ?? element("section");
      if (!byTag.has(tag)) section.append(element("h2", "", tag));
      byTag.set(tag, section);
      section.append(card(path, method.toUpperCase(), operation, described));
    }
  }
  return [...byTag.values()];
}

function filter(): void {
  const wanted = byId<HTMLInputElement>("filter").value.toLowerCase();
  for (const card of document.querySelectorAll<HTMLElement>("details.group")) card.hidden = !card.dataset.words!.includes(wanted);
}

function card(path: string, method: string, operation: Operation, described: Description): HTMLElement {
  const node = element("details", method === "GET" ? "group" : "group changes");
  const words = operation.description ?? operation.summary ?? "";
  node.id = operation.operationId;
  node.dataset.words = `${method} ${path} ${words} ${operation.operationId}`.toLowerCase();
  const head = element("summary");
  head.append(element("b", "", method), element("code", "", path), element("small", "", words));
  node.append(head);
  node.addEventListener("toggle", () => node.childElementCount === 1 && node.append(...inside(path, method, operation, described)));
  return node;
}

function inside(path: string, method: string, operation: Operation, { components }: Description): HTMLElement[] {
  const role = operation.security?.flatMap((scheme) => Object.values(scheme)).flat()[0];
  const about = element("p", "quiet", `${operation.operationId}. ${role === undefined ? "Open to all." : `Needs the role ${role} where the bridge has tokens.`}`);
  const form = element("form");
  const inputs = (operation.parameters ?? []).map((parameter) => [parameter, parameterInput(parameter)] as const);
  const row = element("div", "row");
  row.append(...inputs.map(([parameter, input]) => labelled(parameter, input)));
  const content = operation.requestBody?.content["application/json"];
  const body = content === undefined ? null : Object.assign(element("textarea"), { value: pretty(content.example) });
  body?.setAttribute("aria-label", "Body");
  const command = element("pre");
  const answer = element("pre", "answer-text");
  answer.hidden = true;
  const address = (): string => addressOf(path, inputs);
  const describe = (): void => setText(command, curl(method, address(), body?.value));
  form.append(row, ...(body === null ? [] : [body]), command);
  form.addEventListener("input", describe);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send(method, address(), body?.value, answer);
  });
  describe();
  const good = Object.entries(operation.responses).find(([status]) => status.startsWith("2"))?.[1];
  const [type, shape] = Object.entries(good?.content ?? {})[0] ?? ["nothing", {}];
  if (type !== ENDLESS) form.append(Object.assign(element("button", "primary", "Send"), { type: "submit" }));
  const answers = [`2xx ${type}${shape.schema === undefined ? "" : `: ${schemaText(shape.schema, components.schemas)}`}`];
  answers.push(...Object.entries(operation.responses).filter(([status]) => !status.startsWith("2")).map(([status, { description }]) => `${status} ${description}`));
  return [about, form, answer, element("h3", "", "Answers"), element("pre", "", answers.join("\n"))];
}

function parameterInput({ example, schema }: Parameter): HTMLInputElement {
  return Object.assign(element("input"), { value: String(example ?? schema.default ?? "") });
}

function labelled({ name, in: place }: Parameter, input: HTMLInputElement): HTMLElement {
  const label = element("label", "field", `${name} (${place}) `);
  label.append(input);
  return label;
}

function addressOf(path: string, inputs: (readonly [Parameter, HTMLInputElement])[]): string {
  const query = new URLSearchParams();
  for (const [{ name, in: place }, { value }] of inputs) {
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === "query" && value !== "") query.set(name, value);
  }
  const base = new URL(".", location.href).href.replace(/\/$/, "");
  return `${base}${path}${query.size > 0 ? `?${query}` : ""}`;
}

function curl(method: string, address: string, body?: string): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const sent = body === undefined ? "" : ` --json ${quoted(body.replace(/\s*\n\s*/g, " "))}`;
  return `curl${method === "GET" ? "" : ` -X ${method}`}${sent} ${quoted(address)}`;
}

async function send(method: string, address: string, body: string | undefined, answer: HTMLElement): Promise<void> {
  answer.hidden = false;
  setText(answer, "waiting");
  try {
    const sent = body === undefined ? {} : { body, headers: { "Content-Type": "application/json" } };
    const got = await fetch(address, { method, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS), ...sent });
    setText(answer, `${got.status} ${got.statusText}\n${await textOf(got)}`);
  } catch (error) {
    setText(answer, `no answer: ${(error as Error).message}`);
  }
}

async function textOf(got: Response): Promise<string> {
  const type = got.headers.get("Content-Type") ?? "";
  if (!/json|text/.test(type)) return `${type}, ${(await got.arrayBuffer()).byteLength} bytes`;
  const text = await got.text();
  const shown = type.startsWith("application/json") ? pretty(JSON.parse(text)) : text;
  return shown.length > MOST_SHOWN ? `${shown.slice(0, MOST_SHOWN)}\n(${shown.length} characters in all)` : shown;
}

/** JSON on several lines, lists of plain values on one. */
function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(/\[\s+([^[\]{}]*?)\s+\]/g, (_, inner: string) => `[${inner.replace(/\s*\n\s*/g, " ")}]`);
}
