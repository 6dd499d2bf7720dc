/** A front of a denokv that gives out access tokens which end after seconds. Requests for data go to denokv directly. */

/** Time for which a token of the front is valid. */
export const TOKEN_MS = 2_000;

/** Serves the metadata of the denokv at `address`. `exchanges` counts the tokens given out. */
export function shortTokenFront(
  address: string,
  token: string,
): AsyncDisposable & { address: string; exchanges(): number } {
  let exchanges = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    await request.body?.cancel();
    exchanges++;
    return Response.json({
      version: 3,
      databaseId: "00000000-0000-0000-0000-000000000000",
      endpoints: [{ url: `${address}/v2`, consistency: "strong" }],
      token,
      expiresAt: new Date(Date.now() + TOKEN_MS).toISOString(),
    });
  });
  return {
    address: `http://127.0.0.1:${server.addr.port}`,
    exchanges: () => exchanges,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
