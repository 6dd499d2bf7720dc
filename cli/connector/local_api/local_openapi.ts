/** The OpenAPI document of the local API, from the rows of its table (D-118). */
import { type DocumentForm, openApiDocument } from "../../../shared/openapi.ts";
import { LOCAL_ERRORS, type LocalCode } from "./local_errors.ts";
import { type LocalCaller, localErrorsOf, type LocalRoute } from "./local_route.ts";

const FORM: DocumentForm<LocalCode, LocalCaller> = {
  errors: LOCAL_ERRORS,
  securitySchemes: {
    token: { type: "http", scheme: "bearer", description: "The token in connector.json; new at each start" },
    peer: { type: "http", scheme: "bearer", description: "The token that svc a2a add printed for this peer" },
  },
  credentials: {
    token: { security: [{ token: [] }], headers: [] },
    peer: { security: [{ peer: [] }], headers: [] },
    anyone: { security: [], headers: [] },
  },
  requestHeaders: [],
  responseHeaders: [],
  errorHeaders: { 429: ["Retry-After"] },
};

/** Returns the document as a JSON value. */
export function localOpenApi(routes: readonly LocalRoute[], version: string): Record<string, unknown> {
  const operations = routes.map((route) => ({
    ...route,
    credential: route.caller,
    limits: route.bounds ?? [],
    headers: [],
    params: route.params,
    query: route.query,
    body: route.body ?? route.rawBody ?? route.textBody,
    emptyBody: false,
    errors: localErrorsOf(route),
    ...(route.passesOnErrors ? { passesOnErrorsOf: "the proxy" } : {}),
  }));
  return openApiDocument([{ title: "svc connector", operations }], version, FORM);
}
