/** Shows the bound that admin and visit tokens share: a longer text is refused before it is decoded. */
import { assertEquals, assertThrows } from "@std/assert";
import { parseAdminToken } from "../../../shared/protocol/signed/admin_token.ts";
import { SHORT_TOKEN_BYTES_MAX } from "../../../shared/protocol/signed/short_token.ts";
import { parseVisitToken } from "../../../shared/protocol/signed/visit_token.ts";

Deno.test("both kinds of short tokens have the same bound", () => {
  assertEquals(SHORT_TOKEN_BYTES_MAX, 2048);
  for (const parse of [parseAdminToken, parseVisitToken]) assertThrows(() => parse("A".repeat(2049)), Error, "2048");
});
