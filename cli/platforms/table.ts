/** The platform table (D-90): every supported agent runtime. */
import { GENERIC } from "./generic.ts";
import { HERMES } from "./hermes.ts";
import { NANOBOT } from "./nanobot.ts";
import { OPENCLAW } from "./openclaw.ts";
import type { Platform, PlatformId } from "./platform.ts";

export const PLATFORMS: Readonly<Record<PlatformId, Platform>> = Object.freeze({
  openclaw: OPENCLAW,
  hermes: HERMES,
  nanobot: NANOBOT,
  generic: GENERIC,
});
