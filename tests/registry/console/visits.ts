/** Visits of the console in a test: a code, a session, pages and forms. */
import { assert, assertEquals } from "@std/assert";
import { answered } from "../../support/registry_world.ts";
import { REGISTRY_URL, World, type WorldOptions } from "../../support/world.ts";

const HOST = new URL(REGISTRY_URL).host;

/** Opens a registry with the console. */
export function open(options: WorldOptions = {}): Promise<World> {
  return World.open({ ...options, registry: { console: true, ...options.registry } });
}

/** Returns the address that `svc admin open` opens. */
export async function codeOf(w: World, apiKey?: string): Promise<string> {
  const key = apiKey ?? (await w.admin()).apiKey;
  const answer = await w.ask("POST", "/v1/admin/console-codes", { apiKey: key });
  return (await answered<{ url: string }>(answer, 201)).url;
}

/** The session of a browser: the base of its addresses, and its cookie. */
export interface Visit {
  base: string;
  cookie: string;
}

/** Sends a request to the console's host. */
export function request(w: World, path: string, init: RequestInit & { headers?: Record<string, string> } = {}) {
  return w.fetch(new URL(path, REGISTRY_URL), { ...init, headers: { Host: HOST, ...init.headers } });
}

/** Follows an address of `codeOf`; `null` when its code no longer counts. */
export async function take(w: World, url: string): Promise<Visit | null> {
  const answer = await request(w, url, { method: "POST", headers: { Origin: REGISTRY_URL } });
  if (answer.status !== 303) {
    assertEquals(answer.status, 404);
    return null;
  }
  const base = (answer.headers.get("location") ?? "").replace(/\/overview$/, "");
  const [cookie = "", ...attributes] = (answer.headers.get("set-cookie") ?? "").split("; ");
  assertEquals(attributes, ["HttpOnly", "SameSite=Strict", `Path=${base}/`, "Secure"]);
  return { base, cookie };
}

/** Opens a session of the first admin. */
export async function visit(w: World): Promise<Visit> {
  const visit = await take(w, await codeOf(w));
  assert(visit);
  return visit;
}

/** Gets a page. */
export async function look(w: World, { base, cookie }: Visit, path: string, headers: Record<string, string> = {}) {
  const answer = await request(w, `${base}/${path}`, { headers: { Cookie: cookie, ...headers } });
  return { status: answer.status, text: await answer.text() };
}

/** Sends a form with the token of the session. */
export async function send(w: World, { base, cookie }: Visit, path: string, form: Record<string, string> = {}) {
  const page = await look(w, { base, cookie }, "overview");
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? "";
  const answer = await request(w, `${base}/${path}`, {
    method: "POST",
    headers: { Cookie: cookie, Origin: REGISTRY_URL, "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ csrf, ...form }).toString(),
  });
  return { status: answer.status, to: answer.headers.get("location"), text: await answer.text() };
}
