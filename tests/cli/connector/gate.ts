/** A proxy that takes no messages while a test wants it so. */
import type { World } from "../../support/world.ts";

/** Fails requests for messages while it is set. */
export function gate(world: World): {
  fetch: typeof fetch;
  answer: (() => Response) | null;
  /** No request is answered. */
  isDeaf: boolean;
  requests: string[];
} {
  const state = {
    isDeaf: false,
    answer: null as (() => Response) | null,
    requests: [] as string[],
    fetch: (async (input: string, init?: RequestInit) => {
      if (!String(input).includes("/hooks/agent")) return await world.fetch(input, init);
      state.requests.push(new Headers(init?.headers).get("x-request-id") ?? "");
      if (state.isDeaf) {
        await new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted"))));
      }
      return state.answer?.() ?? await world.fetch(input, init);
    }) as typeof fetch,
  };
  return state;
}

/** No connection: the request has certainly not left. */
export const down = () => {
  throw new TypeError("client error (Connect): tcp connect error: Connection refused");
};
/** The answer is lost: the request may have left. */
export const lost = () => {
  throw new TypeError("connection reset");
};
/** An error of the proxy. */
export const refusal = (status: number, code: string, headers = {}) => () =>
  Response.json({ error: { code, message: "No" } }, { status, headers });
