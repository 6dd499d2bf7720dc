/** What the connector does with an unhandled rejection, and with an exception. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CliError } from "../../../cli/errors.ts";
import { reportDefects } from "../../../cli/connector/defects.ts";

Deno.test("an unhandled rejection is reported and the connector keeps running", () => {
  const reported: unknown[] = [];
  const { end } = reportDefects((name, fields) => void reported.push([name, fields]));
  const dispatch = (why: string) => {
    const promise = Promise.resolve();
    const init = { promise, reason: new TypeError(why), cancelable: true };
    return globalThis.dispatchEvent(new PromiseRejectionEvent("unhandledrejection", init));
  };
  assertEquals([dispatch("broke off"), reported], [false, [["defect", { why: "broke off" }]]]);
  dispatch(`no such session: svc_rft_${"x".repeat(43)}`);
  assertEquals(reported[1], ["defect", { why: "no such session: [redacted]" }]);
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

Deno.test("the place of an exception is told without a secret in its address", async () => {
  const { exception, end } = reportDefects(() => {});
  const error = Object.assign(new TypeError("broke off"), {
    stack: `TypeError: broke off\n    at data:text/javascript,svc_rft_${"x".repeat(43)}:1:1`,
  });
  globalThis.dispatchEvent(new ErrorEvent("error", { error, cancelable: true }));
  const ended = await assertRejects(() => exception, CliError);
  assertEquals(ended.details, ["at data:text/javascript,[redacted]:1:1"]);
  end();
});
