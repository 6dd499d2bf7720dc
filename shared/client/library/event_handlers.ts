/** The handlers that a program has registered for the events of an agent. */
import type { AgentEvent, AgentEventName } from "./agent_api.ts";
import { problemOf } from "./error_conversion.ts";

export class EventHandlers {
  readonly #handlers: Record<AgentEventName, Set<(event: AgentEvent) => void>> = {
    connected: new Set(),
    disconnected: new Set(),
    problem: new Set(),
  };

  add(event: AgentEventName, handler: (event: AgentEvent) => void): () => void {
    this.#handlers[event].add(handler);
    return () => void this.#handlers[event].delete(handler);
  }

  emit(event: AgentEventName, message: string, code: string | null = null): void {
    for (const handler of [...this.#handlers[event]]) handler({ event, message, code });
  }

  /** Reports an error as a problem. */
  problem(error: unknown, what = ""): void {
    const { code, message } = problemOf(error);
    this.emit("problem", what === "" ? message : `${what}: ${message}`, code);
  }
}
