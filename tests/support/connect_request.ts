/** The request of an agent that connects, for tests that claim its presence without a socket. */
import type { ConnectRequest } from "../../proxy/relay/presence.ts";
import type { Clock } from "../../shared/clock.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";

export function connectRequest(clock: Clock): ConnectRequest {
  const now = clock.now();
  return { signedAt: unixSeconds(now), admittedAt: now, isHidden: false };
}
