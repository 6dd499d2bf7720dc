/** Opens a page of svc and hides its address from others. */
import { join } from "node:path";
import { markup } from "../../shared/page/html.ts";
import { PAGE_FILE } from "../../shared/client/agent_files.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { System } from "../context.ts";
import type { PrivateFolder } from "./private_files.ts";

/**
 * Shows the page of an address that works once. The browser gets a private file that leads to the address, because
 * other users of the machine can read the command line of the browser. Returns the lines for the terminal, which
 * contain the address only when there is no browser.
 */
export async function openPage(
  system: Pick<System, "openFile">,
  folder: PrivateFolder,
  { url }: { url: string },
): Promise<string[]> {
  if (system.openFile !== undefined) {
    const leads =
      markup`<!doctype html><meta charset="utf-8"><title>svc</title><meta http-equiv="refresh" content="0;url=${url}">`;
    await folder.write(PAGE_FILE, leads.text);
    if (await system.openFile(join(folder.path, PAGE_FILE))) return ["The page opens in your browser."];
    await folder.remove(PAGE_FILE);
  }
  return pageLines({ url });
}

export function pageLines({ url }: { url: string }): string[] {
  return [`Open this address in a browser. It works once, for ${LIMITS.pageCodeMs / 60_000} min:`, "", url, ""];
}
