// Questions and commands to the bridge over REST; addresses are relative, so that a proxy's prefix works.

const PATIENCE_MS = 8000;

/** The bridge said no, and why; status 0 means that it did not answer. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

type Method = "GET" | "PUT" | "PATCH" | "POST" | "DELETE";

/** Ask; the answer's JSON, undefined where there is none. Raises ApiError with the bridge's own words. */
export async function ask<T>(method: Method, path: string, body?: unknown, patience_ms = PATIENCE_MS): Promise<T> {
  let answer: Response, text: string;
  try {
    answer = await fetch(`api/v1/${path}`, {
      method,
      cache: "no-store",
      signal: AbortSignal.timeout(patience_ms),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    });
    text = await answer.text();
  } catch (error) {
    throw new ApiError(0, `the bridge does not answer: ${(error as Error).message}`);
  }
  if (!answer.ok) throw new ApiError(answer.status, refusal(answer.status, text));
  try {
    return (text === "" ? undefined : JSON.parse(text)) as T;
  } catch {
    throw new ApiError(answer.status, "something else than the bridge answered; is a proxy in between?");
  }
}

function refusal(status: number, text: string): string {
  try {
    const { detail } = JSON.parse(text) as { detail: unknown };
    return Array.isArray(detail) ? detail.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join("; ") : String(detail);
  } catch {
    return text.trim() || `the bridge answers ${status}`;
  }
}

/** A name as a part of an address. */
export const part = encodeURIComponent;
