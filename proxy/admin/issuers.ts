/** `GET /v1/admin/relay/issuers`: the registries whose agents have pairs here (D-280). Reads only. */
import type { IssuerList, IssuerView } from "../../shared/protocol/api/relay_admin.ts";
import { authorityOf, parseDid } from "../../shared/protocol/did.ts";
import { type Answer, json } from "../../shared/server/http/route.ts";
import type { Kv } from "../../shared/server/kv.ts";
import type { Issuers } from "../federation/issuers.ts";
import type { IssuerPolicy } from "../issuer_policy.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { PairCount } from "../schema/records.ts";

/** With more, one look would read the records of every agent that ever visited. */
const AGENTS_MAX = 10_000;

interface IssuersDeps {
  kv: Kv;
  config: { registryUrl: string };
  policy: IssuerPolicy;
  issuers: Issuers;
}

export async function issuers({ kv, config, policy, issuers }: IssuersDeps): Promise<Answer> {
  const own = authorityOf(config.registryUrl) ?? "", found = new Map<string, IssuerView>();
  const known = new Map([...issuers.known].map(([issuer, one]) => [authorityOf(issuer), one]));
  let agents = 0;
  // The agents of this server are between the two ranges, because keys are in order.
  for (const range of [KEYS.pairCountsBefore(own), KEYS.pairCountsBehind(own)]) {
    for await (const { key, value } of kv.list<PairCount>(range, { limit: AGENTS_MAX - agents + 1 })) {
      if (++agents > AGENTS_MAX) break;
      const authority = parseDid(String(key.at(-1)))?.authority ?? "", one = known.get(authority);
      const view = found.get(authority) ?? {
        authority,
        agents: 0,
        pairs: 0,
        allowed: policy.acceptsAuthority(authority),
        keysAgeSeconds: ageOf(one?.keysAgeSeconds),
        listAgeSeconds: ageOf(one?.list.ageSeconds),
        problem: one?.problem ?? null,
      };
      found.set(authority, { ...view, agents: view.agents + 1, pairs: view.pairs + value.pairs });
    }
  }
  const views = [...found.values()].sort((a, b) => a.authority < b.authority ? -1 : 1);
  return json({ issuers: views, areAll: agents <= AGENTS_MAX } satisfies IssuerList);
}

function ageOf(seconds = -1): number | null {
  return seconds < 0 ? null : seconds;
}
