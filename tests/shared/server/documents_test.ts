/** The documents that the services serve of themselves: valid, complete, and harmless to look at. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Validator } from "@seriousme/openapi-schema-validator";
import { PROXY_DOCUMENT } from "../../../proxy/routes.ts";
import { REGISTRY_DOCUMENT } from "../../../registry/routes.ts";
import { ERRORS } from "../../../shared/protocol/errors.ts";
import { documentsOf } from "../../../shared/server/documents.ts";
import { REGISTRY_URL, World } from "../../support/world.ts";

const PARTS = {
  registry: [REGISTRY_DOCUMENT],
  proxy: [PROXY_DOCUMENT],
  both: [REGISTRY_DOCUMENT, PROXY_DOCUMENT],
};

for (const [name, parts] of Object.entries(PARTS)) {
  Deno.test(`the OpenAPI document of ${name} is valid and has every route with every code`, async () => {
    const document = JSON.parse(documentsOf(parts, "1.2.3").openApi);
    const result = await new Validator().validate(structuredClone(document));
    assertEquals(result.errors ?? [], []);
    assert(result.valid);
    assertEquals([document.openapi, document.info.version], ["3.1.0", "1.2.3"]);
    for (const { method, path, errors } of parts.flatMap((part) => part.operations)) {
      const operation = document.paths[path.replace(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()];
      assert(operation, `${method} ${path}`);
      const shared = ["/health", "/openapi.json", "/docs", "/docs/style.css"].includes(path) && parts.length > 1;
      if (shared) continue;
      const listed = Object.values(operation.responses as Record<string, { content?: never }>)
        .flatMap((response) => codesOf(response));
      assertEquals([...new Set(listed)].sort(), [...errors].sort(), `${method} ${path}`);
    }
  });
}

function codesOf(response: { content?: Record<string, { schema?: { properties?: { error?: unknown } } }> }): string[] {
  const error = response.content?.["application/json"]?.schema?.properties?.error as
    | { properties?: { code?: { enum?: string[] } } }
    | undefined;
  return error?.properties?.code?.enum?.filter((code) => code in ERRORS) ?? [];
}

Deno.test("the page names every route and code, runs nothing and loads only its own style", async () => {
  await using w = await World.open();
  const response = await w.fetch(`${REGISTRY_URL}/docs`);
  const page = await response.text();
  assertEquals(response.headers.get("Content-Type"), "text/html; charset=utf-8");
  assertEquals(response.headers.get("Content-Security-Policy"), "default-src 'none'; style-src 'self'");
  for (const { method, path, errors } of PARTS.both.flatMap((part) => part.operations)) {
    assertStringIncludes(page, `${method} ${path}`);
    for (const code of errors) assertStringIncludes(page, code);
  }
  assert(!/<script|<style|style=|onclick|javascript:|https?:\/\//i.test(page));
  const style = await w.fetch(`${REGISTRY_URL}/docs/style.css`);
  assertEquals([style.status, style.headers.get("Content-Type")], [200, "text/css; charset=utf-8"]);
});
