/** What the connector does with an unhandled rejection. */
import { assertEquals } from "@std/assert";
import { reportDefects } from "../../../cli/connector/start.ts";

Deno.test("an unhandled rejection is reported and the connector keeps running", () => {
  const reported: unknown[] = [];
  const end = reportDefects((name, fields) => void reported.push([name, fields]));
  const dispatch = () => {
    const promise = Promise.resolve();
    const init = { promise, reason: new TypeError("broke off"), cancelable: true };
    return globalThis.dispatchEvent(new PromiseRejectionEvent("unhandledrejection", init));
  };
  assertEquals([dispatch(), reported], [false, [["defect", { why: "broke off" }]]]);
  end();
});
