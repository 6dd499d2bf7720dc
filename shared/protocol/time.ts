/**
 * Times in messages: ISO 8601 in bodies, Unix seconds in headers and tokens. Dates that do not exist are refused,
 * because parsers disagree about their meaning.
 */

/** Milliseconds since the Unix epoch. */
export type EpochMs = number;

const RFC3339 = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;
const ISO_LENGTH = "2000-01-01T00:00:00.000Z".length;
const FIRST = Date.UTC(2000, 0, 1);
const LAST = Date.UTC(10_000, 0, 1) - 1;
const UNIX_SECONDS = /^(0|[1-9][0-9]{0,15})$/;

/** Returns ISO 8601 in UTC with milliseconds and `Z`. */
export function toIso(ms: EpochMs): string {
  return new Date(ms).toISOString();
}

/**
 * Parses an RFC 3339 time with `Z` or an offset; returns `null` for any other text. The date must exist and be in the
 * years 2000 to 9999 in UTC. Decimals past the third are ignored.
 *
 * @returns milliseconds since the Unix epoch
 */
export function parseIso(text: string): EpochMs | null {
  // Nearly every time has the form of `toIso`, and reading that form directly takes a tenth of the time.
  const usual = text.length === ISO_LENGTH ? Date.parse(text) : NaN;
  if (usual >= FIRST && usual <= LAST && toIso(usual) === text) return usual;
  const [, day, time, decimals = "", sign, offsetHour = 0, offsetMinute = 0] = RFC3339.exec(text) ?? [];
  if (day === undefined || Number(offsetHour) > 23 || Number(offsetMinute) > 59) return null;
  const local = Date.parse(`${day}T${time}.${decimals.padEnd(3, "0").slice(0, 3)}Z`);
  // `Date` takes 30 February for 1 March, and 24:00 for the next day.
  if (!(local >= FIRST) || !toIso(local).startsWith(`${day}T${time}`)) return null;
  const offset = (Number(offsetHour) * 60 + Number(offsetMinute)) * 60_000;
  const moment = sign === "-" ? local + offset : local - offset;
  return moment >= FIRST && moment <= LAST ? moment : null;
}

/** Parses `X-Svc-Timestamp`: decimal Unix seconds without sign, leading zero or fraction; `null` for other texts. */
export function parseUnixSeconds(text: string): number | null {
  return UNIX_SECONDS.test(text) ? Number(text) : null;
}

/** Returns a time in Unix seconds, rounded down. */
export function unixSeconds(ms: EpochMs): number {
  return Math.floor(ms / 1000);
}
