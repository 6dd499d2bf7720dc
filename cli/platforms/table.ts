/** The platform table (D-90): every supported agent runtime, and the inbox for agents without one. */
import { A2A } from "./a2a.ts";
import { GENERIC } from "./generic.ts";
import { HERMES } from "./hermes.ts";
import { INBOX } from "./inbox.ts";
import { NANOBOT } from "./nanobot.ts";
import { OPENCLAW } from "./openclaw.ts";
import type { PullPlatform, PushPlatform, PushPlatformId } from "./platform.ts";

export const PLATFORMS: Readonly<Record<PushPlatformId, PushPlatform> & { inbox: PullPlatform }> = Object.freeze({
  openclaw: OPENCLAW,
  hermes: HERMES,
  nanobot: NANOBOT,
  generic: GENERIC,
  a2a: A2A,
  inbox: INBOX,
});
