/** HTTP handler of the revocation list. A client that already has the current list gets a 304. */
import { ServiceError } from "../../shared/protocol/errors.ts";
import { conditionalAnswer } from "../../shared/server/http/response.ts";
import type { Answer } from "../../shared/server/http/route.ts";
import type { ServiceCaller, WithBody } from "../callers.ts";
import type { CrlPublisher } from "./crl.ts";

export async function getCrl(
  deps: { crl: CrlPublisher },
  { exchange }: WithBody<undefined, ServiceCaller | null>,
): Promise<Answer> {
  const list = await deps.crl.current();
  if (!list) throw new ServiceError("CRL_NOT_FOUND");
  return conditionalAnswer(exchange.request, list.body, list.etag, "no-cache");
}
