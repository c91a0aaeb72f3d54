// Tables whose cells are changed in place, and the words for states: a colour always has its word and its shape.

import { element, setClass, setText } from "./dom";

export interface Cell {
  text: string;
  className?: string;
  /** Put the text into a badge of this class. */
  badge?: string;
  span?: number;
}

export type Row = (Cell | string)[];
export type Column = [title: string, className?: string];

const STATE_CLASS: Record<string, string> = {
  running: "good", starting: "", waiting: "fair", retrying: "bad", stopped: "",
  tracked: "good", coasting: "coast", frozen: "bad", stale: "poor", lost: "bad",
};

export const stateClass = (word: string): string => STATE_CLASS[word] ?? "";
export const state = (word: string): Cell => ({ text: word, badge: `badge ${stateClass(word)}` });
export const right = (text: string): Cell => ({ text, className: "number" });
export const quiet = (text: string): Cell => ({ text, className: "quiet" });
export const strong = (text: string): Cell => ({ text, className: "strong" });

/** Rows of components, each followed by a line in words where there is something to say. */
export function withDetails(rows: [cells: Row, words: string][], width: number): Row[] {
  return rows.flatMap(([cells, words]) => (words ? [cells, [{ text: words, badge: "long", span: width }]] : [cells]));
}

function setCell(cell: HTMLTableCellElement, value: Cell | string): void {
  const { text, className = "", badge, span = 1 } = typeof value === "string" ? { text: value } : value;
  setClass(cell, className);
  if (cell.colSpan !== span) cell.colSpan = span;
  if (badge === undefined) {
    setText(cell, text);
    return;
  }
  let inner = cell.firstElementChild;
  if (inner === null) {
    cell.textContent = "";
    inner = cell.appendChild(element("span"));
  }
  setClass(inner, badge);
  setText(inner, text);
}

function makeHead(table: HTMLTableElement, columns: Column[]): void {
  const head = table.createTHead().insertRow();
  for (const [title, className = ""] of columns) {
    const th = element("th", className, title);
    th.scope = "col";
    head.append(th);
  }
  table.createTBody();
}

/** Show rows; without any, the message for that takes the table's place. */
export function setTable(table: HTMLTableElement, columns: Column[], rows: Row[]): void {
  const empty = document.getElementById(`${table.id}-empty`);
  if (empty !== null) empty.hidden = rows.length > 0;
  table.hidden = rows.length === 0;
  if (table.tHead === null) makeHead(table, columns);
  const body = table.tBodies[0]!;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    setClass(row, cells.length < columns.length ? "detail" : "");
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((value, column) => setCell(row.cells[column] ?? row.insertCell(), value));
  });
}
