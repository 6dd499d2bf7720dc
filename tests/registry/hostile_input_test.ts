/**
 * Shows that texts of 60 to 100 KiB in every checked field, header and query are answered. There is no bound on the
 * time: a pattern with exponential cost never answers.
 */
import { assert, assertEquals } from "@std/assert";
import { moveTo, openRegistry, outcome, refused } from "../support/registry_world.ts";
import { REGISTRY_URL } from "../support/world.ts";

const KIB = 1024;

Deno.test("texts of 60 KiB in every checked field and of 100 KiB in headers and queries are answered", async (t) => {
  await using w = await openRegistry();
  const { apiKey } = await w.admin();
  // A long run of each text: a pattern with more than linear cost is slow on one of them.
  const hostile = ["a", " ", "a.", "0-", "\u0300", "👋", "2026-02-21T00:00:00.", "did:svc:"];
  const fields: [path: string, field: string, wanted: string][] = [
    ["/v1/invites", "expiresAt", "400 INVITE_CREATE_INVALID"],
    ["/v1/invites/redeem", "code", "400 INVITE_REDEEM_INVALID"],
    ["/v1/me/api-keys", "name", "400 API_KEY_CREATE_INVALID"],
    ["/v1/agents/challenge", "publicKey", "400 AGENT_REGISTRATION_CHALLENGE_INVALID"],
    ...["name", "publicKey", "challengeId", "challengeSignature", "framework"].map((field) =>
      ["/v1/agents", field, "400 AGENT_REGISTRATION_INVALID"] as [string, string, string]
    ),
    ["/v1/agents/auth/refresh", "refreshToken", "400 AGENT_AUTH_REFRESH_INVALID"],
    ...["agentDid", "aitJti"].map((field) =>
      ["/v1/agents/auth/validate", field, "400 AGENT_AUTH_VALIDATE_INVALID"] as [string, string, string]
    ),
    ["/v1/admin/internal-services", "name", "400 INTERNAL_SERVICE_INVALID"],
  ];
  for (const [path, field, wanted] of fields) {
    await t.step(`${path} ${field}`, async () => {
      for (const [i, seed] of hostile.entries()) {
        moveTo(w, i);
        const text = seed.repeat(Math.floor(60_000 / new TextEncoder().encode(JSON.stringify(seed)).length));
        assertEquals(await outcome(await w.ask("POST", path, { apiKey, body: { [field]: text } })), wanted);
      }
      const body = { [field]: "a".repeat(100 * KIB) };
      await refused(await w.ask("POST", path, { apiKey, body }), "PAYLOAD_TOO_LARGE");
    });
  }
  await t.step("queries", async () => {
    for (const name of ["status", "framework", "limit", "cursor"]) {
      for (const seed of ["a", "1", "%20", "%00", "a%20"]) {
        const query = `${name}=${seed.repeat(100 * KIB / seed.length)}`;
        await refused(await w.ask("GET", `/v1/agents?${query}`, { apiKey }), "AGENT_LIST_INVALID_QUERY");
      }
    }
  });
});

Deno.test("headers of 100 KiB are answered with a status below 500", async (t) => {
  await using w = await openRegistry();
  const agent = await w.agent();
  const about = { agentDid: agent.agent.did, aitJti: agent.agent.currentJti };
  const names = [
    "User-Agent",
    "x-request-id",
    "Authorization",
    "x-bootstrap-secret",
    "X-Forwarded-For",
    "If-None-Match",
  ];
  const signed = ["X-Svc-Timestamp", "X-Svc-Nonce", "X-Svc-Proof", "X-Svc-Body-SHA256", "X-Svc-Agent-Access"];
  // A long run of each text: a pattern with more than linear cost is slow on one of them.
  const seeds = ["a", " a", "0", ",", "a.", "Bearer ", '"', "::"];
  const value = seeds.map((seed) => seed.repeat(100 * KIB / seeds.length / seed.length)).join("");
  for (const name of [...names, ...signed, "X-Svc-Service-Id", "X-Svc-Service-Secret"]) {
    await t.step(name, async () => {
      const headers = { "X-Svc-Agent-Access": agent.agentAuth.accessToken, [name]: value };
      for (
        const answer of [
          await w.ask("GET", "/v1/me", { headers }),
          await w.ask("GET", "/.well-known/svc-keys.json", { headers }),
          await w.ask("GET", "/v1/crl", { headers }),
          await w.ask("POST", "/v1/admin/bootstrap", { headers }),
          await w.ask("POST", "/v1/agents/auth/validate", { headers, body: about }),
          await w.ask("POST", "/v1/agents/auth/refresh", { headers, body: { refreshToken: "x" } }),
          await w.fetch(
            await w.signed(agent, {
              base: REGISTRY_URL,
              target: "/v1/agents/auth/refresh",
              body: JSON.stringify({ refreshToken: "x" }),
              headers: { [name]: value },
            }),
          ),
        ]
      ) {
        assert(answer.status < 500, await answer.clone().text());
        await answer.body?.cancel();
      }
    });
  }
});
