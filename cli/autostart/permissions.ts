/** Deno permissions of `svc`. Files and hosts are not limited; environment variables and programs are. */
import { ENVIRONMENT } from "../context.ts";

/** Permissions of a connector. It starts no program. */
export const CONNECTOR_PERMISSIONS: readonly string[] = [
  "--no-prompt",
  "--allow-net",
  "--allow-read",
  "--allow-write",
  "--allow-sys=uid",
  // The last two are read by the WebSocket library.
  `--allow-env=${[...ENVIRONMENT, "WS_NO_BUFFER_UTIL", "WS_NO_UTF_8_VALIDATE"].join(",")}`,
];

/**
 * Permissions of all commands: also the tools of the service managers, the runtimes that report their version, and `ps`,
 * which says whether the process is in the foreground of its terminal (D-122).
 */
export const PERMISSIONS: readonly string[] = [
  ...CONNECTOR_PERMISSIONS,
  "--allow-run=systemctl,launchctl,journalctl,loginctl,tail,openclaw,hermes,nanobot,ps",
];
