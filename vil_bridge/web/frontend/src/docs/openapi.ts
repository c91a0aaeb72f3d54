// The parts of an OpenAPI 3.1 document that the page shows, and its schemas as text.

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  items?: Schema;
  prefixItems?: Schema[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  description?: string;
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  example?: unknown;
  schema: Schema & { default?: unknown };
}

export interface Operation {
  operationId: string;
  tags?: string[];
  summary?: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema?: Schema }> }>;
  security?: Record<string, string[]>[];
}

export interface Description {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

const DEEPEST = 5;

/** A schema as people read it: names and types, one a line. */
export function schemaText(schema: Schema, all: Record<string, Schema>, depth = 0): string {
  const { $ref, properties, items, prefixItems, additionalProperties, anyOf } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf("/") + 1);
    return depth < DEEPEST && all[name] !== undefined ? schemaText(all[name], all, depth) : name;
  }
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (anyOf !== undefined) return [...new Set(anyOf.map((part) => schemaText(part, all, depth)))].join(" | ");
  if (properties !== undefined) return fields(properties, all, depth);
  if (prefixItems !== undefined) return `[${prefixItems.map((part) => schemaText(part, all, depth)).join(", ")}]`;
  if (items !== undefined) return `[${schemaText(items, all, depth)}, ...]`;
  if (typeof additionalProperties === "object") return `{name: ${schemaText(additionalProperties, all, depth)}}`;
  return [schema.type ?? "any"].flat().join(" | ");
}

function fields(properties: Record<string, Schema>, all: Record<string, Schema>, depth: number): string {
  if (depth >= DEEPEST) return "{...}";
  const indent = "  ".repeat(depth + 1);
  const lines = Object.entries(properties).map(([name, part]) => {
    const note = part.description === undefined ? "" : `  # ${part.description}`;
    return `${indent}${name}: ${schemaText(part, all, depth + 1)}${note}`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}
