/** What the connector does with an unhandled rejection, and with an exception. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CliError } from "../../../cli/errors.ts";
import { reportDefects } from "../../../cli/connector/defects.ts";

Deno.test("an unhandled rejection is reported and the connector keeps running", () => {
  const reported: unknown[] = [];
  const { end } = reportDefects((name, fields) => void reported.push([name, fields]));
  const dispatch = () => {
    const promise = Promise.resolve();
    const init = { promise, reason: new TypeError("broke off"), cancelable: true };
    return globalThis.dispatchEvent(new PromiseRejectionEvent("unhandledrejection", init));
  };
  assertEquals([dispatch(), reported], [false, [["defect", { why: "broke off" }]]]);
  end();
});

Deno.test("an exception that no code handles ends the connector with a text without secrets, and tells what to do", async () => {
  const { exception, end } = reportDefects(() => {});
  const error = new TypeError(`no such session: svc_rft_${"x".repeat(43)}`);
  // False means that the runtime itself prints nothing.
  assertEquals(globalThis.dispatchEvent(new ErrorEvent("error", { error, cancelable: true })), false);
  const ended = await assertRejects(() => exception, CliError, "TypeError: no such session: [redacted]");
  assertEquals([ended.code, ended.fix], ["CLI_UNEXPECTED", "Start the connector again, and please report it."]);
  assertStringIncludes(ended.details.join(), "defects_test.ts");
  end();
});
