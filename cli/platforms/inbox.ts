/** No runtime: a program reads the messages from the connector's local API (D-116). */
import type { PullPlatform } from "./platform.ts";

export const INBOX: PullPlatform = { delivery: "pull", id: "inbox", name: "the inbox of the connector" };
