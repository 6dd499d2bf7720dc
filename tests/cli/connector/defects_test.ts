/** What the connector does with an unhandled rejection (D-248). */
import { assertEquals } from "@std/assert";
import { reportDefects } from "../../../cli/connector/defects.ts";

Deno.test("an unhandled rejection ends nothing and is reported, while defects are reported", () => {
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
