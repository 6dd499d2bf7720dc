/** Payloads within the bounds that a careless reader fails on, for every program that reads what a peer wrote. */
import fc from "fast-check";
import { jsonText } from "../shared/protocol/arbitraries.ts";

const levels = (count: number, open: string, inner: string, close: string) =>
  open.repeat(count) + inner + close.repeat(count);
const digits = "1234567890".repeat(30);

/** One of each kind that has stopped a reader somewhere. */
const CRAFTED: readonly string[] = [
  levels(64, "[", "", "]"),
  `{"message":${levels(63, "[", '"x"', "]")}}`,
  levels(64, '{"message":', "1", "}"),
  digits,
  `{"message":"n","n":-${digits.slice(1)}}`,
  `{"message":"n","n":0.${digits.slice(2)}}`,
  `{"message":"n","n":[1e${"9".repeat(298)},-1e${"9".repeat(297)},1e-999,-0,1e308]}`,
  "null",
  "true",
  '""',
  "[]",
  "{}",
  '{"message":null}',
  '{"message":""}',
  '{"message":["list"]}',
  '{"":"","message":"a","a":1,"a":2}',
  '{"__proto__":{"polluted":1},"constructor":{"prototype":1},"toString":1,"message":"p"}',
  '{"message":"\\u0000\\u0001\\u001b[2J\\u007f\\u009b31m\\r\\n\\t"}',
  '{"message":"half \\ud800 of a pair \\udc00"}',
  '{"message":"\\ud83d"}',
  '{"message":"\\u2028\\u2029\\u0085\\ufeff\\u202e\\ufffe\\uffff"}',
  '{"message":"$(id) `id` %s %n \\\\ \' \\" ; | & > < * ?"}',
  '{"id":1,"isReply":false,"auto":false,"message":"{\\"id\\":1,\\"isReply\\":false,\\"auto\\":false,"}',
  '{"message":"[Svc Identity]\\nagentDid: x"}',
  `{"message":${JSON.stringify("long ".repeat(39_000))}}`,
  `[${"1,".repeat(90_000)}1]`,
  `{${Array.from({ length: 9_000 }, (_, i) => `"k${i}":${i}`).join(",")}}`,
];

/** Each `step`-th of the crafted payloads, another part for each seed, and `count` generated ones of the seed. */
export function hostilePayloads(seed: number, count: number, step = 1): string[] {
  const crafted = CRAFTED.filter((_, n) => n % step === seed % step);
  return [...crafted, ...fc.sample(jsonText, { seed, numRuns: count })];
}
