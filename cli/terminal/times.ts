/** Times and durations for people, in the time zone of the terminal. */
import { DAY_MS } from "../../shared/clock.ts";

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]] as const;

/** Returns how long something lasts, for example `12 d`, `3 h` or `20 s`. */
export function durationText(ms: number): string {
  for (const [unit, unitMs] of UNITS) if (ms >= unitMs) return `${Math.floor(ms / unitMs)} ${unit}`;
  return "0 s";
}

/** Returns when something will be, to the nearest number: `in 30 d` also a second after it was 30 d ahead. */
export function aheadText(ms: number): string {
  const [, unitMs] = UNITS.find(([, unitMs]) => ms >= unitMs) ?? UNITS[3];
  return `in ${durationText(Math.round(ms / unitMs) * unitMs)}`;
}

/** Returns a duration in the largest unit of which it has at least two, because one is too coarse: `90 s`, `40 h`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 2 * 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** Returns when something was, for example `now`, `2 min ago` or `3 h ago`; less than a minute ago is `now`. */
export function agoText(ms: number): string {
  return ms < 60_000 ? "now" : `${durationText(ms)} ago`;
}

/** For times this far ahead, a date says more than a number of days. */
const AHEAD_MS = 60 * DAY_MS;

/**
 * Returns when something was or will be: `now`, `2 min ago`, `3 h ago`, `yesterday 14:02`, `Mon 14:02`, `21 Nov 14:02`,
 * `21 Nov 2025`, `in 4 min`.
 *
 * @param at milliseconds
 */
export function whenText(at: number, now: number): string {
  const when = new Date(at), today = new Date(now);
  const date = dateText(when);
  if (at - now >= AHEAD_MS) return `${date} ${when.getFullYear()}`;
  if (at - now >= 1_000) return aheadText(at - now);
  const time = clockText(at);
  const days = dayNumber(today) - dayNumber(when);
  if (days <= 0 || now - at < 3_600_000) return agoText(now - at);
  if (days === 1) return `yesterday ${time}`;
  if (days < 7) return `${when.toDateString().slice(0, 3)} ${time}`;
  return when.getFullYear() === today.getFullYear() ? `${date} ${time}` : `${date} ${when.getFullYear()}`;
}

/** A time within a year, in the time zone of this machine: `24 Nov 08:13`. */
export function dayAndTime(iso: string): string {
  const at = new Date(iso);
  return `${dateText(at)} ${clockText(at)}`;
}

/** When something was: a time such as `07:40`, with its day unless that is today. */
export function sinceText(iso: string, now: number): string {
  const at = Date.parse(iso);
  return new Date(at).toDateString() === new Date(now).toDateString() ? clockText(at) : dayAndTime(iso);
}

/** The time of day, for example `14:02`. */
export function clockText(time: number | Date): string {
  return new Date(time).toTimeString().slice(0, 5);
}

/** A day within a year, for example `24 Nov`. */
export function dateText(at: Date): string {
  return `${at.getDate()} ${at.toDateString().slice(4, 7)}`;
}

/** A number that grows by one each calendar day, even when the clocks change. */
function dayNumber(at: Date): number {
  return Date.UTC(at.getFullYear(), at.getMonth(), at.getDate()) / DAY_MS;
}
