/**
 * A world whose registry is compared with its own tables: an answer that its row of the route table does not allow
 * fails the test. Also calls and reads that many registry tests use.
 */
import { assert, assertEquals } from "@std/assert";
import { AUTHENTICATORS } from "../../registry/auth.ts";
import type { RegistryDeps } from "../../registry/deps.ts";
import { REGISTRY_ROUTES } from "../../registry/routes.ts";
import type { AuditList } from "../../shared/protocol/api/audit.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { type CrlClaims, verifyCrl } from "../../shared/protocol/signed/crl.ts";
import { type ErrorCode, ERRORS } from "../../shared/protocol/errors.ts";
import type { VerificationKeys } from "../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { errorsOf, type Route } from "../../shared/server/http/route.ts";
import { withCheckedAnswers } from "./table_conformance.ts";
import { REGISTRY_URL, type RequestParts, type TestAgent, World, type WorldOptions } from "./world.ts";

type Row = Route<RegistryDeps>;

/** Opens a world whose registry is compared with its tables. */
export async function openRegistry(options: WorldOptions = {}): Promise<World> {
  const w = await World.open(options);
  // Timers take whole milliseconds, as the machine's do. A pause of 3.7 ms would leave a clock that the ULID source
  // rejects.
  const after = w.clock.after.bind(w.clock);
  w.clock.after = (ms, fn) => after(Math.ceil(ms), fn);
  hold(w);
  return w;
}

/** Starts both services again over the same store. */
export async function restart(w: World): Promise<void> {
  await w.start();
  hold(w);
}

function hold(w: World): void {
  const schemeOf = (row?: Row) => row?.auth === "agent_proof" ? "Svc" : "Bearer";
  w.registry = withCheckedAnswers(w.registry, { rowOf, codesOf, schemeOf });
}

/** The row that a request is for. */
export function rowOf(method: string, path: string): Row | undefined {
  return REGISTRY_ROUTES.find((row) =>
    row.method === (method === "HEAD" ? "GET" : method) &&
    new RegExp(`^${row.path.replaceAll(".", "\\.").replaceAll(":id", "[^/]+")}$`).test(path)
  );
}

/** Every code that a row can answer. */
export function codesOf(row: Row): ErrorCode[] {
  return errorsOf(
    row,
    (AUTHENTICATORS as Record<string, { errors: readonly ErrorCode[] }>)[row.auth] ?? { errors: [] },
  );
}

/** Asserts that an answer is an error with this code and its status. */
export async function refused(answer: Response, code: ErrorCode, status?: number): Promise<string> {
  const text = await answer.text();
  assertEquals([answer.status, JSON.parse(text || "{}").error?.code], [
    status ?? [ERRORS[code].status].flat()[0],
    code,
  ]);
  return text;
}

/** Asserts an answer's status. Returns its body. */
export async function answered<T = Record<string, unknown>>(answer: Response, status = 200): Promise<T> {
  const text = await answer.text();
  assertEquals(answer.status, status, text.slice(0, 500));
  return (text === "" ? null : JSON.parse(text)) as T;
}

/** The status of an answer, with the code when it is an error: `201`, `409 INVITE_REDEEM_ALREADY_USED`. */
export async function outcome(answer: Response): Promise<string> {
  if (answer.status < 400) {
    await answer.body?.cancel();
    return String(answer.status);
  }
  const { error } = await answer.json() as { error: { code: string } };
  return `${answer.status} ${error.code}`;
}

/** Counts each outcome. */
export async function tally(answers: Promise<Response>[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const name of await Promise.all(answers.map(async (answer) => outcome(await answer)))) {
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** Moves the clock until the work is done, because pauses between attempts need it. */
export async function withTime<T>(w: World, work: Promise<T>, stepMs = 2): Promise<T> {
  let done = false;
  const finish = () => done = true;
  work.then(finish, finish);
  while (!done) await w.clock.advance(stepMs);
  return await work;
}

/** A signed refresh, with any part replaced. */
export async function refresh(
  w: World,
  agent: Pick<TestAgent, "identity">,
  refreshToken: unknown,
  { recovery, ...parts }: RequestParts & { recovery?: boolean } = {},
): Promise<Response> {
  const body = JSON.stringify({ refreshToken, recovery });
  return await w.fetch(
    await w.signed(agent, { base: REGISTRY_URL, target: "/v1/agents/auth/refresh", body, ...parts }),
  );
}

/** A refresh that must succeed. */
export async function refreshed(...[w, agent, token, parts]: Parameters<typeof refresh>): Promise<AgentAuth> {
  return (await answered<{ agentAuth: AgentAuth }>(await refresh(w, agent, token, parts))).agentAuth;
}

/** Asks whether an access token is valid. `change` replaces any part of the request. */
export async function validate(
  w: World,
  { agent }: Pick<TestAgent, "agent">,
  accessToken: string,
  { agentDid = agent.did, aitJti = agent.currentJti, ...headers }: Record<string, string> = {},
): Promise<Response> {
  return await w.ask("POST", "/v1/agents/auth/validate", {
    headers: { "X-Svc-Agent-Access": accessToken, ...headers },
    body: { agentDid, aitJti },
  });
}

/** A call within the process, which has no limit. */
export async function inside(w: World, path: string): Promise<Response> {
  return await w.registry.fetch(new Request(REGISTRY_URL + path), { from: "process" });
}

/** The published keys. */
export async function publishedKeys(w: World): Promise<VerificationKeys> {
  const keys = await readKeyDocument(await answered(await inside(w, "/.well-known/svc-keys.json")));
  assert(keys);
  return keys;
}

/** The revocation list, verified as a proxy verifies it. */
export async function readCrl(w: World): Promise<CrlClaims> {
  const { crl } = await answered<{ crl: string }>(await inside(w, "/v1/crl"));
  return await verifyCrl(crl, { issuer: REGISTRY_URL, keys: await publishedKeys(w) }, unixSeconds(w.clock.now()));
}

/** The audit events that fit a query, newest first unless it says otherwise. */
export async function auditEvents(w: World, query: string): Promise<AuditList["events"]> {
  return (await answered<AuditList>(await w.ask("GET", `/v1/admin/audit?${query}`, await w.admin()))).events;
}

/** Reads a list page by page as the admin. Returns the IDs of each page. */
export async function pagesOf(
  w: World,
  path: string,
  list: string,
  query: Record<string, string> = {},
): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor: string | null = null;;) {
    const search: URLSearchParams = new URLSearchParams({ ...query, ...cursor ? { cursor } : {} });
    const page: Pick<AuditList, "pagination"> & Record<string, unknown> = await answered(
      await w.ask("GET", `${path}?${search}`, await w.admin()),
    );
    assertEquals(page.pagination.limit, Number(query.limit ?? 100));
    pages.push((page[list] as { id: string }[]).map(({ id }) => id));
    cursor = page.pagination.nextCursor;
    if (cursor === null) return pages;
  }
}

/** Counts the records whose keys begin like this one. */
export async function countOf(w: World, key: Deno.KvKey): Promise<number> {
  return (await Array.fromAsync(w.kv.list({ prefix: key.slice(0, 2) }))).length;
}

/** Writes records past the services, in few commits. */
export async function writeRecords(
  w: World,
  count: number,
  write: (operation: Deno.AtomicOperation, i: number) => void,
): Promise<void> {
  for (let done = 0; done < count;) {
    const operation = w.kv.atomic();
    for (let i = 0; i < 250 && done < count; i++) write(operation, done++);
    await operation.commit();
  }
}

/** Creates an internal service with these scopes. Returns the headers of its credential. */
export async function serviceHeaders(w: World, ...scopes: string[]): Promise<Record<string, string>> {
  const { internalService: { id, secret } } = await w.client.createService((await w.admin()).apiKey, "relay", scopes);
  return { "X-Svc-Service-Id": id, "X-Svc-Service-Secret": secret };
}

/** Rotates the registry's signing key. */
export async function rotateKey(w: World): Promise<{ kid: string; retiredKid: string; signsFrom: string }> {
  return await answered(await w.ask("POST", "/v1/admin/keys/rotate", await w.admin()));
}

/** Makes the following requests come from another address. */
export function moveTo(w: World, n: number): void {
  w.peer = { from: "socket", address: `198.51.${n >> 8 & 255}.${n & 255}` };
}
