/** What `svc` may do, wherever it runs. Files and hosts are the person's to choose; variables and programs are not. */
import { ENVIRONMENT } from "../context.ts";

/** What a connector needs; it starts no program. */
export const CONNECTOR_PERMISSIONS: readonly string[] = [
  "--no-prompt",
  "--allow-net",
  "--allow-read",
  "--allow-write",
  "--allow-sys=uid",
  // The last two are read by the WebSocket library.
  `--allow-env=${[...ENVIRONMENT, "WS_NO_BUFFER_UTIL", "WS_NO_UTF_8_VALIDATE"].join(",")}`,
];

/** What every command needs: the tools of the system's services, and the runtimes that report their version. */
export const PERMISSIONS: readonly string[] = [
  ...CONNECTOR_PERMISSIONS,
  "--allow-run=systemctl,launchctl,journalctl,loginctl,tail,openclaw,hermes,nanobot",
];
