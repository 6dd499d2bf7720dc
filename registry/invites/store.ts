/**
 * Invites in the store. A code works once: invite, human and API key change in one commit.
 */
import { ServiceError } from "../../shared/protocol/errors.ts";
import { makeSecret } from "../../shared/protocol/secrets.ts";
import { digest } from "../../shared/server/crypto.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { optimistically } from "../../shared/server/kv.ts";
import { type HumanRecord, newHuman, putHuman } from "../accounts/store.ts";
import { audited } from "../audit/record.ts";
import { issueApiKey, type IssuedApiKey } from "../credentials/store.ts";
import type { RegistryDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";

/** An invite as stored; times are ISO-8601. */
export interface InviteRecord {
  id: string;
  digest: string;
  expiresAt: string | null;
  createdAt: string;
  redeemedAt: string | null;
  redeemedBy: string | null;
}

/** `redeemed` is judged before `expired` (D-37). */
export function inviteStatus(invite: InviteRecord, now: number): "unused" | "redeemed" | "expired" {
  if (invite.redeemedAt !== null) return "redeemed";
  return invite.expiresAt !== null && now >= (parseIso(invite.expiresAt) ?? 0) ? "expired" : "unused";
}

export async function createInvite(
  deps: RegistryDeps,
  admin: HumanRecord,
  expiresAt: string | null,
  requestId: string,
): Promise<{ invite: InviteRecord; code: string }> {
  const code = makeSecret("invite", deps.random.bytes);
  const invite: InviteRecord = {
    id: deps.newId(),
    digest: digest(code),
    expiresAt,
    createdAt: toIso(deps.clock.now()),
    redeemedAt: null,
    redeemedBy: null,
  };
  return await optimistically(deps, () => {
    const operation = deps.kv.atomic()
      .check({ key: KEYS.inviteCode(invite.digest), versionstamp: null })
      .set(KEYS.inviteCode(invite.digest), invite.id)
      .set(KEYS.invite(invite.id), invite);
    audited(operation, deps, { event: "invite.created", actor: admin.did, subject: invite.id, requestId });
    return { operation, result: { invite, code } };
  });
}

/**
 * Redeems a code for a new human with an API key; of many at once one wins.
 *
 * @throws {ServiceError} `INVITE_REDEEM_CODE_INVALID`, `INVITE_REDEEM_ALREADY_USED`, `INVITE_REDEEM_EXPIRED`
 */
export async function redeemInvite(
  deps: RegistryDeps,
  { code, displayName, apiKeyName }: { code: string; displayName: string; apiKeyName: string },
  requestId: string,
): Promise<{ human: HumanRecord; key: IssuedApiKey }> {
  const given = digest(code);
  return await optimistically(deps, async () => {
    const id = (await deps.kv.get<string>(KEYS.inviteCode(given))).value;
    const entry = id === null ? null : await deps.kv.get<InviteRecord>(KEYS.invite(id));
    if (!entry?.value) throw new ServiceError("INVITE_REDEEM_CODE_INVALID");
    const now = deps.clock.now();
    const status = inviteStatus(entry.value, now);
    if (status === "redeemed") throw new ServiceError("INVITE_REDEEM_ALREADY_USED");
    if (status === "expired") throw new ServiceError("INVITE_REDEEM_EXPIRED");
    const human = newHuman(deps, displayName, "user");
    const key = issueApiKey(deps, human.id, apiKeyName);
    const redeemed: InviteRecord = { ...entry.value, redeemedAt: toIso(now), redeemedBy: human.did };
    const operation = putHuman(deps.kv.atomic().check(entry).set(entry.key, redeemed), human, key);
    audited(operation, deps, { event: "invite.redeemed", actor: human.did, subject: entry.value.id, requestId });
    return { operation, result: { human, key } };
  });
}

/** All invites, newest first. */
export async function listInvites(deps: RegistryDeps): Promise<InviteRecord[]> {
  const entries = await Array.fromAsync(deps.kv.list<InviteRecord>({ prefix: KEYS.invites() }, { reverse: true }));
  return entries.map((entry) => entry.value);
}

/**
 * Deletes an invite; its code is then unknown.
 *
 * @throws {ServiceError} `INVITE_NOT_FOUND`
 */
export async function deleteInvite(
  deps: RegistryDeps,
  admin: HumanRecord,
  id: string,
  requestId: string,
): Promise<void> {
  await optimistically(deps, async () => {
    const entry = await deps.kv.get<InviteRecord>(KEYS.invite(id));
    if (!entry.value) throw new ServiceError("INVITE_NOT_FOUND");
    const operation = deps.kv.atomic().check(entry).delete(entry.key).delete(KEYS.inviteCode(entry.value.digest));
    audited(operation, deps, { event: "invite.deleted", actor: admin.did, subject: id, requestId });
    return { operation, result: undefined };
  });
}
