// Elements, made and changed in place, so that a selection, a scroll position or the focus survives.
// Text is only ever set as text.

type Tags = HTMLElementTagNameMap;

/** The element of that id, which the page has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

export function element<K extends keyof Tags>(tag: K, className = "", text = ""): Tags[K] {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node: Element, className: string): void {
  if (node.className !== className) node.className = className;
}

/** Show `pairs` as the terms and values of a `<dl class="facts">`. */
export function setFacts(list: HTMLElement, pairs: [term: string, value: string][]): void {
  while (list.children.length > pairs.length) list.lastElementChild?.remove();
  pairs.forEach(([term, value], index) => {
    let group = list.children[index];
    if (group === undefined) {
      group = element("div");
      group.append(element("dt"), element("dd"));
      list.append(group);
    }
    setText(group.children[0]!, term);
    setText(group.children[1]!, value);
  });
}

/** Keep one child of `holder` for each name, in order: made by `make`, forgotten when its name goes. */
export function setChildren<T extends HTMLElement>(holder: HTMLElement, names: string[], make: (name: string) => T): T[] {
  const before = new Map([...holder.children].map((child) => [(child as T).dataset.name, child as T]));
  const children = names.map((name) => {
    const child = before.get(name) ?? make(name);
    child.dataset.name = name;
    return child;
  });
  if (children.length !== holder.children.length || children.some((child, i) => holder.children[i] !== child)) {
    holder.replaceChildren(...children);
  }
  return children;
}
