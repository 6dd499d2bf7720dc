/** Tickets in pasted texts: broken into lines by a mail or a terminal, with text around, and texts without one. */
import fc from "fast-check";
import { assertEquals } from "@std/assert";
import { formatTicket, ticketInPaste } from "../../../shared/protocol/ticket.ts";
import { anyText } from "./arbitraries.ts";

const OWN = "https://svc.example.com";
const ticketOf = (url: string) => formatTicket(url, new Uint8Array(16)).replace(".-.", ".BwcHBwcHBwcHBwcHBwcHBw.");
const own = ticketOf(OWN);
const found = (text: string) => {
  const result = ticketInPaste(text, OWN);
  return "problem" in result ? result.problem : result.ticket.ticket;
};

Deno.test("a ticket of the own server is found in each text that breaks it once, and another one is never taken", () => {
  const other = ticketOf("https://other.example");
  for (let at = 1; at < own.length; at++) {
    for (const end of ["\n", "\r\n", "\n> ", " \n\t"]) {
      for (
        const [before, behind] of [["", ""], ["Hello,\nmy ticket: ", ""], ["", "\nSee you"], ["> ", ` \n> ${"\n"}bye`]]
      ) {
        assertEquals(found(`${before}${own.slice(0, at)}${end}${own.slice(at)}${behind}`), own, `${at} ${end}`);
      }
      const broken = found(other.slice(0, at) + end + other.slice(at));
      assertEquals(broken === own, false);
    }
  }
});

Deno.test("a paste without one clear ticket says what to do", () => {
  const cut = "This ticket was cut off: copy it whole.";
  const cases: [text: string, expected: string][] = [
    ["hello", "No pairing ticket in the pasted text."],
    ["", "No pairing ticket in the pasted text."],
    [own.slice(0, 40), cut],
    [`${own.slice(0, 40)} and more`, cut],
    [`\`${own}\`, it works once.`, own],
    [`(${own}).`, own],
    ...[["\u201c", "\u201d."], ["\u201e", "\u201c"], ["\u2018", "\u2019"], ["\u00ab", "\u00bb"], ["**", "**"], [
      "",
      "\u200b",
    ]].map((
      [before, behind],
    ): [string, string] => [`${before}${own}${behind}`, own]),
    [`${own}\n${own}`, own],
    [ticketOf("https://b.example"), ticketOf("https://b.example")],
    [`${ticketOf("https://b.example")} ${ticketOf("https://c.example")}`, "Copy the ticket alone, in one line."],
    [`${ticketOf("https://b.example")} ${own}`, own],
    ["svcpair1_ ".repeat(6_000), cut],
    ["svcpair1_\n".repeat(6_000), cut],
    [`svcpair1_${"a.".repeat(30_000)}`, cut],
  ];
  for (const [text, expected] of cases) assertEquals(found(text), expected, text.slice(0, 60));
});

Deno.test("random texts hold no ticket", () => {
  const text = fc.oneof(anyText, anyText.map((rest) => `svcpair1_${rest}`));
  fc.assert(fc.property(text, (pasted) => "problem" in ticketInPaste(pasted, OWN)), { seed: 1, numRuns: 1_000 });
});
