/** The table of local routes: its OpenAPI document is valid and complete, and every row keeps the common rules. */
import { assert, assertEquals } from "@std/assert";
import { schemaProblems } from "../../../support/openapi_answer.ts";
import { Validator } from "@seriousme/openapi-schema-validator";
import { localErrorsOf, type LocalRoute } from "../../../../cli/connector/local_api/local_route.ts";
import { peerTokenHash } from "../../../../cli/connector/local_api/a2a_peers.ts";
import { LOCAL_ROUTES } from "../../../../cli/connector/local_api/local_routes.ts";
import { World } from "../../../support/world.ts";
import { story } from "../bench.ts";
import { asker } from "./local_caller.ts";

const nameOf = ({ method, path }: LocalRoute) => `${method} ${path}`;

/** A path of the row, with values for its parameters that fit no message. */
const targetOf = ({ path }: LocalRoute) => path.replace(/:\w+/g, "12345678");

Deno.test("the OpenAPI document of the local API is valid and has every route with every code", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  const { status, body: document, headers } = await asker(bench)("/openapi.json");
  assertEquals([status, headers.get("content-type")], [200, "application/json"]);
  const result = await new Validator().validate(structuredClone(document));
  assertEquals(result.errors ?? [], []);
  assert(result.valid);
  assertEquals(schemaProblems(document), []);
  assertEquals([document.openapi, document.info.version], ["3.1.0", "0.0.0-test"]);
  const described = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation }))
  );
  assertEquals(
    described.map(({ name }) => name).sort(),
    LOCAL_ROUTES.map((route) => nameOf(route).replace(/:(\w+)/g, "{$1}")).sort(),
  );
  for (const route of LOCAL_ROUTES) {
    const operation = described.find(({ name }) => name === nameOf(route).replace(/:(\w+)/g, "{$1}"))?.operation;
    assert(operation);
    const texts = Object.values(operation.responses).map(({ description }) => description).join("; ");
    for (const code of localErrorsOf(route)) assert(texts.includes(`${code}: `), `${nameOf(route)} ${code}`);
    assertEquals("default" in operation.responses, route.passesOnErrors === true, nameOf(route));
    assertEquals(operation.security, route.caller === "anyone" ? [] : [{ [route.caller]: [] }]);
  }
});

interface Operation {
  responses: Record<string, { description: string }>;
  security: unknown;
}

Deno.test("every route refuses callers without the token, web pages, and unknown query parameters", async (t) => {
  await using world = await World.open();
  const { a, bench } = await story(world);
  // The value of every parameter is the alias of this peer.
  const peer = { alias: "12345678", did: a.agent.did, tokenHash: peerTokenHash("peer"), addedAt: "" };
  const ask = asker(bench, [], [peer]);
  for (const route of LOCAL_ROUTES) {
    await t.step(nameOf(route), async () => {
      const { method, caller } = route, target = targetOf(route);
      const token: Record<string, string> = caller === "peer" ? { authorization: "Bearer peer" } : {};
      const codeOf = async (path: string, headers: Record<string, string> = {}, body?: string) =>
        (await ask(path, { method, headers: { ...token, ...headers }, ...(body === undefined ? {} : { body }) })).body
          ?.error?.code;
      const stranger = await codeOf(target, { authorization: "Bearer x" });
      assertEquals(stranger, caller === "anyone" ? undefined : "CONNECTOR_UNAUTHORIZED");
      assertEquals(await codeOf(target, { origin: "http://127.0.0.1" }), "CONNECTOR_ORIGIN_FORBIDDEN");
      if (target !== "/openapi.json") {
        assertEquals(await codeOf(target, { "sec-fetch-site": "same-origin" }), "CONNECTOR_ORIGIN_FORBIDDEN");
      }
      for (const query of ["unknown=1", "__proto__=1", "constructor", "limit=1&limit=1"]) {
        assertEquals(await codeOf(`${target}?${query}`), "CONNECTOR_INVALID_BODY", query);
      }
      if (route.body === undefined || route.shownBody !== undefined) return;
      assertEquals(await codeOf(target, {}, '{"unknownMember":1}'), "CONNECTOR_INVALID_BODY");
      for (const deep of ["[".repeat(100_000), `{"payload":${"[".repeat(100_000)}${"]".repeat(100_000)}}`]) {
        assertEquals(await codeOf(target, {}, deep), "CONNECTOR_INVALID_BODY");
      }
    });
  }
});
