/** The queries of all routes, by their tables. */
import { assertEquals } from "@std/assert";
import { PROXY_ROUTES } from "../../../../proxy/routes.ts";
import { REGISTRY_ROUTES } from "../../../../registry/routes.ts";

const ROUTES = [...REGISTRY_ROUTES, ...PROXY_ROUTES];

Deno.test("every list and every number for an admin refuses a query parameter that it does not know", () => {
  const isAdmins = (path: string) => path.startsWith("/v1/admin/") && !path.includes(":");
  const rows = ROUTES.filter(({ method, path, query }) => query !== undefined || method === "GET" && isAdmins(path));
  const texts = rows.map(({ path, query }) => {
    const { error } = query?.safeParse({ limt: "1" }) ?? {};
    return [
      path,
      error?.issues.some(({ code, message }) => code === "unrecognized_keys" && / not "limt"$/.test(message)),
    ];
  });
  assertEquals(texts, rows.map(({ path }) => [path, true]));
  assertEquals(rows.length > 15, true);
});
