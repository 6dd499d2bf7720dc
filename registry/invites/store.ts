/** Invites in the store. A code works only once, because one commit changes the invite and creates the human. */
import { findHuman, newHuman, putHuman } from "../accounts/store.ts";
import { issueApiKey, type IssuedApiKey } from "../api_keys/store.ts";
import { audit } from "../audit/record.ts";
import type { Asker } from "../callers.ts";
import { countInvite, countInviteClosed, quotaOf } from "../quota.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { ENDED_KEPT_MS } from "../schema/retention.ts";
import type { ApiKeyRecord, HumanRecord, InviteRecord } from "../schema/records.ts";
import type { RegistryStore } from "../store_deps.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { makeSecret, SECRET_KINDS } from "../../shared/protocol/secrets.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";
import { digest } from "../../shared/server/crypto.ts";
import { invalidInput } from "../../shared/server/http/app.ts";
import type { Draft } from "../../shared/server/store/changes.ts";
import type { RedeemInviteBody } from "../../shared/protocol/api/invites.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { belowCursor, type Page, readPage } from "../../shared/server/store/pages.ts";

/** An invite that was redeemed and has then expired is `redeemed`. */
export function inviteStatus(invite: InviteRecord, now: number): "unused" | "redeemed" | "expired" {
  if (invite.redeemedAt !== null) return "redeemed";
  return invite.expiresAt !== null && now >= (parseIso(invite.expiresAt) ?? 0) ? "expired" : "unused";
}

/**
 * Returns the expiry that an admin asked for, as it is stored.
 *
 * @throws {ServiceError} `INVITE_CREATE_INVALID` for the past
 */
function checkedExpiry(wanted: string | null, now: number): string | null {
  if (wanted === null) return null;
  const expiresMs = parseIso(wanted) ?? 0;
  if (expiresMs > now) return toIso(expiresMs);
  const fieldErrors = { expiresAt: ["expiresAt must be in the future"] };
  throw invalidInput("INVITE_CREATE_INVALID", { fieldErrors, formErrors: [] });
}

/**
 * @param id that of the form that asks, because a form that is sent twice would otherwise make two invites
 * @throws {ServiceError} `INVITE_CREATE_INVALID`, also when an invite has the ID; `QUOTA_EXCEEDED`
 */
export async function createInvite(
  deps: RegistryStore,
  by: Asker,
  wantedExpiry: string | null,
  id = deps.newId(),
): Promise<{ invite: InviteRecord; code: string }> {
  const expiresAt = checkedExpiry(wantedExpiry, deps.clock.now());
  const code = makeSecret("invite", deps.random.bytes);
  const invite: InviteRecord = {
    id,
    digest: digest(code),
    expiresAt,
    createdAt: toIso(deps.clock.now()),
    redeemedAt: null,
    redeemedBy: null,
    createdBy: by.human.id,
  };
  const expiry = expiryOf(invite);
  const kept = expiry === null ? {} : { expireIn: expiry + ENDED_KEPT_MS - deps.clock.now() };
  return await deps.changes.run(async (draft) => {
    const entry = await draft.get<InviteRecord>(KEYS.invite(id));
    if (entry.value !== null) throw new ServiceError("INVITE_CREATE_INVALID", { message: "An invite has this ID" });
    const quota = await quotaOf(draft, by.human.id);
    draft.set(entry.key, invite, kept);
    draft.set(quota.key, countInvite(quota.value, expiry, deps.clock.now()));
    draft.also((operation) =>
      operation.check({ key: KEYS.inviteCode(invite.digest), versionstamp: null })
        .set(KEYS.inviteCode(invite.digest), invite.id, kept), { checks: 1 });
    await audit(draft, deps, by, "invite.created", invite.id);
    return { invite, code };
  });
}

/**
 * Redeems a code: creates a human with an API key. Of several calls at once with the same code, only one succeeds. The
 * key follows from code and `retrySecret`, because a client whose answer was lost could otherwise not get it again.
 *
 * @throws {ServiceError} `INVITE_REDEEM_CODE_INVALID`, `INVITE_REDEEM_ALREADY_USED`, `INVITE_REDEEM_EXPIRED`
 */
export async function redeemInvite(
  deps: RegistryStore,
  { code, displayName, apiKeyName, retrySecret }: RedeemInviteBody,
  requestId: string,
): Promise<{ human: HumanRecord; key: IssuedApiKey }> {
  const given = digest(code);
  const token = retrySecret && SECRET_KINDS.pat.prefix + digest(`svc.redeem.v1\n${code}\n${retrySecret}`);
  const id = (await deps.reads.get<string>(KEYS.inviteCode(given))).value;
  if (id === null) throw new ServiceError("INVITE_REDEEM_CODE_INVALID");
  return await deps.changes.run(async (draft) => {
    const entry = await draft.get<InviteRecord>(KEYS.invite(id));
    if (!entry.value) throw new ServiceError("INVITE_REDEEM_CODE_INVALID");
    const now = deps.clock.now();
    const status = inviteStatus(entry.value, now);
    if (status === "redeemed") return await redeemedBefore(deps, token);
    if (status === "expired") throw new ServiceError("INVITE_REDEEM_EXPIRED");
    const human = newHuman(deps, displayName, "user");
    const key = issueApiKey(deps, human.id, apiKeyName, token);
    const redeemed: InviteRecord = { ...entry.value, redeemedAt: toIso(now), redeemedBy: human.did };
    const kept = { expireIn: ENDED_KEPT_MS };
    await closeInvite(draft, entry.value);
    draft.set(entry.key, redeemed, kept);
    draft.also((operation) => putHuman(operation.set(KEYS.inviteCode(given), id, kept), human, key), { checks: 2 });
    await audit(draft, deps, { human, requestId }, "invite.redeemed", redeemed.id);
    return { human, key };
  });
}

/**
 * Returns what the first redemption with this token made. Only until the key is used: its holder has the answer then.
 *
 * @throws {ServiceError} `INVITE_REDEEM_ALREADY_USED`
 */
async function redeemedBefore(
  { kv }: RegistryStore,
  token: string | undefined,
): Promise<{ human: HumanRecord; key: IssuedApiKey }> {
  const record = token === undefined ? null : (await kv.get<ApiKeyRecord>(KEYS.apiKey(digest(token)))).value;
  const isUnused = record?.status === "active" && record.lastUsedAt === null;
  const human = isUnused ? await findHuman({ kv }, record.humanId) : null;
  if (!token || !record || !human) throw new ServiceError("INVITE_REDEEM_ALREADY_USED");
  return { human, key: { record, token } };
}

export function listInvites({ kv }: RegistryStore, query: PageQuery): Promise<Page<InviteRecord>> {
  return readPage(kv, belowCursor(KEYS.invites(), query.cursor), query);
}

/**
 * Deletes an invite, whose code is then unknown. Refuses one that was redeemed, because an admin who takes a stolen link
 * back would otherwise believe that it made no account.
 *
 * @throws {ServiceError} `INVITE_NOT_FOUND`, `INVITE_REDEEM_ALREADY_USED`
 */
export async function deleteInvite(deps: RegistryStore, by: Asker, id: string): Promise<void> {
  await deps.changes.run(async (draft) => {
    const entry = await draft.get<InviteRecord>(KEYS.invite(id));
    if (!entry.value) throw new ServiceError("INVITE_NOT_FOUND");
    const { digest } = entry.value, status = inviteStatus(entry.value, deps.clock.now());
    if (status === "redeemed") throw new ServiceError("INVITE_REDEEM_ALREADY_USED");
    // An expired invite no longer counts against the quota, so closing it would free the place of an open one.
    if (status === "unused") await closeInvite(draft, entry.value);
    draft.delete(entry.key);
    draft.also((operation) => operation.delete(KEYS.inviteCode(digest)));
    await audit(draft, deps, by, "invite.deleted", id);
  });
}

async function closeInvite(draft: Draft, invite: InviteRecord): Promise<void> {
  const quota = await quotaOf(draft, invite.createdBy);
  draft.set(quota.key, countInviteClosed(quota.value, expiryOf(invite)));
}

function expiryOf({ expiresAt }: InviteRecord): number | null {
  return expiresAt === null ? null : parseIso(expiresAt);
}
