/** A folder that is deleted at the end. Reads no variable of the environment, which the tests of one process may not. */
export async function tempFolder(): Promise<AsyncDisposable & { path: string }> {
  const path = await Deno.makeTempDir({ prefix: "svc_test_" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}
