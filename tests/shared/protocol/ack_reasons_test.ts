/** The reasons for which connectors refuse messages. */
import { assert } from "@std/assert";
import { ACK_REASONS } from "../../../shared/protocol/ack_reasons.ts";

Deno.test("every reason is one word of a frame, and says when it is given and what its sender can do", () => {
  for (const [reason, { when, fix }] of Object.entries(ACK_REASONS)) {
    assert(/^[a-z_]{3,32}$/.test(reason), reason);
    assert(when.length > 0 && fix.endsWith("."), reason);
  }
});
