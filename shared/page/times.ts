/** Times and durations for people. They are in UTC, because a page of a server is read in several time zones. */
import { toIso } from "../protocol/time.ts";
import { type Html, markup } from "./html.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Milliseconds since the Unix epoch, or an instant of RFC 3339. */
export type Time = number | string;

export function msOf(time: Time): number {
  return typeof time === "number" ? time : Date.parse(time);
}

/**
 * Returns a time as `12:04` for today, `Sat` for the last six days, and otherwise `22 Nov`, or `22 Nov 2025` in another
 * year. The exact time is in the title of the element.
 */
export function when(time: Time, now: number): Html {
  const ms = msOf(time);
  return timeElement(ms, shortTime(ms, now));
}

/** A time with seconds: `11:52:10`. */
export function clockTime(time: Time): Html {
  const ms = msOf(time);
  return timeElement(ms, toIso(ms).slice(11, 19));
}

/** A time with seconds, and with its day when that is not today: `11:52:10`, or `24 Nov, 11:52:10`. */
export function exactly(time: Time, now: number): Html {
  const ms = msOf(time);
  return timeElement(ms, `${dayBefore(ms, now)}${toIso(ms).slice(11, 19)}`);
}

/** A time whose day matters: `12:09 UTC`, or `24 Nov, 11:20 UTC`. */
export function moment(time: Time, now: number): Html {
  const ms = msOf(time);
  return timeElement(ms, `${dayBefore(ms, now)}${toIso(ms).slice(11, 16)} UTC`);
}

function dayBefore(ms: number, now: number): string {
  return dayOf(ms) === dayOf(now) ? "" : `${dayText(ms, now)}, `;
}

/** The heading of a day: `Today`, `Sunday 22 November`. */
export function dayHeading(ms: number, now: number): string {
  if (dayOf(ms) === dayOf(now)) return "Today";
  return `${inWords(ms, { weekday: "long" })} ${dayText(ms, now, "long")}`;
}

/** Returns the number of whole days since the Unix epoch, in UTC. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** A duration in one unit: `8.3 s`, `44 min`, `6 days`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < MINUTE_MS) return `${Math.round(ms / 1000)} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < 2 * DAY_MS) return `${Math.floor(ms / HOUR_MS)} h`;
  return `${Math.floor(ms / DAY_MS)} days`;
}

function shortTime(ms: number, now: number): string {
  if (dayOf(ms) === dayOf(now)) return toIso(ms).slice(11, 16);
  const days = dayOf(now) - dayOf(ms);
  return days > 0 && days < 7 ? inWords(ms, { weekday: "short" }) : dayText(ms, now);
}

function dayText(ms: number, now: number, month: "short" | "long" = "short"): string {
  const date = new Date(ms);
  const year = date.getUTCFullYear() === new Date(now).getUTCFullYear() ? "" : ` ${date.getUTCFullYear()}`;
  return `${date.getUTCDate()} ${inWords(ms, { month })}${year}`;
}

function inWords(ms: number, part: { weekday: "short" | "long" } | { month: "short" | "long" }): string {
  return new Date(ms).toLocaleString("en-US", { ...part, timeZone: "UTC" });
}

function timeElement(ms: number, text: string): Html {
  const iso = toIso(ms);
  return markup`<time datetime="${iso}" title="${iso}">${text}</time>`;
}
