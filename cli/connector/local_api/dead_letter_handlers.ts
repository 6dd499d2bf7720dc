/** Handlers of the routes of dead letters (D-88): list, replay, purge. */
import * as z from "zod";
import { VERIFIED } from "../../../shared/client/local_shapes.ts";
import { isRequestId } from "../../../shared/protocol/ids.ts";
import { json, type LocalInput, wholeNumberOr } from "./local_route.ts";

/** Query of `GET /v1/dead-letter`. */
export const DeadLettersQuery = z.strictObject({
  limit: wholeNumberOr(100, 1, 1_000),
});

/** Response of `GET /v1/dead-letter`, newest first. Times are milliseconds since the Unix epoch. */
export const DeadLetters = z.object({
  deadLetters: z.array(z.object({
    id: z.int(),
    fromAgentDid: z.string(),
    requestId: z.string().refine(isRequestId),
    conversationId: z.string().nullable(),
    /** JSON text. */
    payload: z.string(),
    receivedAt: z.int(),
    verified: z.enum(VERIFIED),
    endedAt: z.int(),
    attempts: z.int(),
    problem: z.string(),
  })),
});

/** Body of the requests that replay and purge. */
export const DeadLetterIds = z.union([
  z.strictObject({ ids: z.array(z.int().min(1)).min(1).max(10_000) }),
  z.strictObject({ all: z.literal(true) }),
]);
type IdsInput = LocalInput<undefined, undefined, z.output<typeof DeadLetterIds>>;

export const Replayed = z.object({ replayed: z.int() });
export const Purged = z.object({ purged: z.int() });

export function list(
  { connector, query }: LocalInput<undefined, z.output<typeof DeadLettersQuery>, undefined>,
): Response {
  const letters = connector.store.received.deadLetters(query.limit);
  return json({ deadLetters: letters.map(({ identity: _, ...letter }) => letter) });
}

export function replay({ connector, body }: IdsInput): Response {
  return json({ replayed: connector.store.received.replay(idsOf(body), connector.deps.clock.now()) });
}

export function purge({ connector, body }: IdsInput): Response {
  return json({ purged: connector.store.received.purge(idsOf(body)) });
}

/** `null`: all of them. */
function idsOf(wanted: z.output<typeof DeadLetterIds>): number[] | null {
  return "ids" in wanted ? wanted.ids : null;
}
