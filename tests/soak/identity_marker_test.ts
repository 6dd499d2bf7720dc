/** The identity marker next to each code point of Unicode; the gate tries every 29th. */
import { compareNextTo } from "../support/identity_marker.ts";

Deno.test("the identity marker is recognised like the complete fold next to each code point", () => compareNextTo(1));
