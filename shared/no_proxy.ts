/** Which addresses an HTTP proxy of the environment never gets. */

/**
 * Returns a value of `NO_PROXY` that keeps requests to this machine away from any proxy, because they carry secrets in
 * clear. All address ranges are added to `*`, because Deno lets `*` match host names only.
 */
export function withLoopback(given: string | undefined): string {
  const list = (given ?? "").split(",").map((entry) => entry.trim()).filter((entry) => entry !== "");
  return [...list, ...list.includes("*") ? ["0.0.0.0/0", "::/0"] : [], "localhost", "127.0.0.0/8", "::1"].join(",");
}
