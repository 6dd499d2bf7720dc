/** Events of the link and of the calls to the proxy: names and plain values, never a secret or text of a message. */

/** The connector adds its own events, in cli/connector/events.ts. */
export type LinkEventName =
  | "connected"
  | "disconnected"
  | "refused"
  | "unreachable"
  | "waiting"
  | "revoked"
  | "clock_offset"
  | "registry_unavailable"
  | "reloaded"
  | "refreshed"
  | "refresh_failed";

export type EventFields = Record<string, string | number | boolean | null>;

export type EmitLinkEvent = (event: LinkEventName, fields?: EventFields) => void;
