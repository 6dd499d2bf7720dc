/** The parts that pages are made of. Pages use no other parts, so that all of them look and work alike. */
import { encode } from "uqr";
import { type Html, markup, typed, type Value } from "./html.ts";

/** How good a state is. Colour and shape show it beside the word. */
export type Mood = "ok" | "warn" | "bad" | "";

const MARK =
  markup`<svg viewBox="0 0 26 26" aria-hidden="true"><path d="M3 6.5 13 1.5l10 5v7.2c0 5.3-4.3 9-10 10.8C7.3 22.7 3 19 3 13.7z" fill="currentColor" opacity=".16" /><path d="M3 6.5 13 1.5l10 5v7.2c0 5.3-4.3 9-10 10.8C7.3 22.7 3 19 3 13.7z" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" /><path d="M7.5 13h4l3-3.5h4M11.5 13l3 3.5h4" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" /></svg>`;

/** Puts a name that another person chose into `<bdi>`, because right-to-left letters would reorder what follows. */
export function name(text: string): Html {
  return markup`<bdi>${text}</bdi>`;
}

function mark(title: string, line: string): Html {
  // Lets a long host name break after a dot, because the browser would otherwise break it within a word.
  const words = line.split(".").map((word, i) => markup`${i > 0 && markup`.<wbr>`}${word}`);
  return markup`${MARK}<span><b>${title}</b><span>${words}</span></span>`;
}

export interface NavEntry {
  path: string;
  text: string;
  /** Number beside the entry; with 0 there is none. */
  count?: number;
}

export function shell(
  { title, line, home, nav, current, foot, main, mainClass, lost, over }: {
    title: string;
    line: string;
    home: string;
    nav: readonly NavEntry[];
    /** Path of the menu entry to which the page belongs. */
    current: string;
    foot: Html;
    main: Html;
    mainClass?: string | undefined;
    /** What a page that updates itself says when the server does not answer, and when its session has ended. */
    lost?: string;
    over?: string;
  },
): Html {
  const entries = nav.map(({ path, text, count = 0 }) =>
    markup`<li id="${`nav-${text.replaceAll(" ", "-")}`}"><a href="${path}"${
      path === current ? markup` aria-current="page"` : ""
    }>${text}${count > 0 && markup`<span class="count">${number(count)}<span class="sr"> new</span></span>`}</a></li>`
  );
  const sign = mark(title, line);
  return markup`${
    lost !== undefined &&
    markup`<p class="note warn" id="lost" role="alert" hidden>${lost}</p><p class="note bad" id="over" role="alert" hidden>${over}</p>`
  }<div class="shell"><header class="side"><a class="mark" href="${home}">${sign}</a><nav class="nav" aria-label="Pages"><ul id="nav" data-live>${entries}</ul></nav><div class="foot">${foot}</div></header><main id="main" ${
    mainClass ? markup` class="${mainClass}"` : ""
  }>${main}</main></div>`;
}

export function plain(place: string, body: Html): Html {
  return markup`<main id="main" class="plain stack"><span class="mark">${mark("svc", place)}</span>${body}</main>`;
}

/** The heading of a page, with one line below it and actions at its side. */
export function head(title: Value, line: Value = null, actions: Value = null): Html {
  return markup`<div class="head"><div><h1>${title}</h1>${
    line !== null && markup`<p class="soft">${line}</p>`
  }</div>${actions}</div>`;
}

export function card(title: Value, body: Value): Html {
  return markup`<section class="card"><h2>${title}</h2>${body}</section>`;
}

export function section(title: Value, body: Value, aside: Value = null): Html {
  return markup`<section class="stack tight"><div class="row spread"><h2>${title}</h2>${aside}</div>${body}</section>`;
}

/** Facts as large numbers. `small` is the line below the number. */
export function tiles(facts: readonly { name: string; value: Value; small?: Value }[]): Html {
  return markup`<dl class="tiles" id="tiles" data-live>${
    facts.map((fact, i) =>
      markup`<div id="${`tile-${i}`}"><dt>${fact.name}</dt><dd>${fact.value}<small>${fact.small}</small></dd></div>`
    )
  }</dl>`;
}

export function lines(facts: readonly (readonly [name: string, value: Value])[]): Html {
  return markup`<dl class="lines">${facts.map(([fact, value]) => markup`<dt>${fact}</dt><dd>${value}</dd>`)}</dl>`;
}

/** A state, shown by word, colour and shape. */
export function tag(mood: Mood, text: Value): Html {
  return markup`<span class="${`tag ${mood}`}">${text}</span>`;
}

/** A hint in the page. With `isAlert`, a screen reader says it at once. */
export function note(mood: Mood, text: Value, { isAlert = false } = {}): Html {
  return markup`<div class="${`note ${mood}`}"${isAlert && markup` role="alert"`}>${text}</div>`;
}

/** A problem: what happened and what to do about it, with the error code in small print. */
export function problem(title: string, text: Value, code?: string): Html {
  return note("bad", markup`<b>${title}</b> ${text} ${code && markup`<span class="soft small">${code}</span>`}`, {
    isAlert: true,
  });
}

export interface Field {
  id: string;
  label: Value;
  value?: string;
  /** Number of lines of a text area. If absent, the field has a single line. */
  rows?: number;
  maxLength?: number;
  hint?: string;
  placeholder?: string;
  /** Why the value was refused. */
  error?: string | undefined;
  /** True for names, IDs and secrets, which are shown in monospace. */
  isId?: boolean;
  type?: "text" | "search" | "date";
}

export function field(
  { id, label, value = "", rows, maxLength, hint, placeholder = " ", error, isId, type }: Field,
): Html {
  const attributes = markup` id="${id}" name="${id}" placeholder="${placeholder}"${
    maxLength && markup` maxlength="${maxLength}"`
  }${isId && markup` class="id" autocomplete="off" spellcheck="false"`}${
    error && markup` aria-invalid="true" aria-describedby="${`${id}-error`}"`
  }`;
  const input = rows
    ? markup`<textarea${attributes} rows="${rows}">\n${typed(value)}</textarea>`
    : markup`<input${attributes} type="${type ?? "text"}" value="${typed(value)}">`;
  return markup`<div><label for="${id}">${label}</label>${input}${hint && markup`<p class="small soft">${hint}</p>`}${
    error && markup`<p class="error" id="${`${id}-error`}">${error}</p>`
  }</div>`;
}

export function choice(
  id: string,
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  chosen: string,
) {
  return markup`<div><label for="${id}">${label}</label><select id="${id}" name="${id}">${
    options.map(([value, text]) =>
      markup`<option value="${value}"${value === chosen && markup` selected`}>${text}</option>`
    )
  }</select></div>`;
}

export function check(id: string, text: Value, isChecked: boolean): Html {
  return markup`<label class="check"><input type="checkbox" name="${id}"${
    isChecked && markup` checked`
  }> ${text}</label>`;
}

/** A button in a form of its own. The form also sends `fields`, and `csrf`, which proves that the page made it. */
export function button(
  { text, action, csrf, fields = {}, look = "" }: {
    text: Value;
    action: string;
    csrf: Html;
    fields?: Readonly<Record<string, string | number>>;
    look?: "" | "quiet" | "danger" | "bare";
  },
): Html {
  return markup`<form method="post" action="${action}">${csrf}${
    hidden(fields)
  }<button class="${`btn ${look}`}">${text}</button></form>`;
}

/** Fields that a form sends and that a person does not see. */
export function hidden(fields: Readonly<Record<string, string | number>>): Html {
  return markup`${
    Object.entries(fields).map(([key, value]) =>
      markup`<input type="hidden" name="${key}" value="${typed(String(value))}">`
    )
  }`;
}

/** A link that looks like a button. */
export function link(path: string, text: Value, look: "" | "quiet" | "bare" = ""): Html {
  return markup`<a class="${`btn ${look}`}" href="${path}">${text}</a>`;
}

/** The question on a page that asks before an action which cannot be undone or is easily done by mistake. */
export interface Question {
  title: Value;
  text: Value;
  /** Details of the record that the question is about. */
  facts?: Value;
  /** Hidden fields that the form also sends. */
  fields?: Value;
  /** Text of the button that acts. `no` is the text of the link that goes back. */
  label: Value;
  no?: string;
  look?: "danger" | "";
}

/** @param error what went wrong at the last attempt */
export function confirmation(
  { title, text, facts, fields, label, no = "Keep it", look = "danger" }: Question,
  { action, csrf, back, error }: { action: string; csrf: Html; back: string; error?: Html | undefined },
): Html {
  return markup`<div class="form stack"><h1>${title}</h1>${error}${
    note(look === "danger" ? "bad" : "warn", text)
  }${facts}<form method="post" action="${action}" class="stack tight">${csrf}${fields}<div class="row"><button class="${`btn ${look}`}">${label}</button>${
    link(back, no, "quiet")
  }</div></form></div>`;
}

export function filter(fields: readonly Html[], submit = "Filter"): Html {
  return markup`<form class="filter" method="get">${fields}<button class="btn quiet">${submit}</button></form>`;
}

/** The heading of a column. With `number`, it is a column of numbers. */
export type Column = string | { number: string };

/** A row of a table, or a heading above the rows that follow it. */
export type Row = { cells: readonly Value[] } | { day: string };

/** A table. On a phone, each row becomes a card. */
export function table(
  { caption, columns, rows, id }: { caption: string; columns: readonly Column[]; rows: readonly Row[]; id?: string },
): Html {
  const headings = columns.map((column) => typeof column === "string" ? column : column.number);
  const isNumber = columns.map((column) => typeof column !== "string");
  const written = rows.map((row, i) => {
    const attributes = id && markup` id="${`${id}-${i}`}"`;
    if ("day" in row) {
      return markup`<tr class="day"${attributes}><td colspan="${columns.length}">${row.day}</td></tr>`;
    }
    const cells = row.cells.map((cell, column) =>
      markup`<td${column > 0 && markup` data-is="${headings[column]}"`}${
        isNumber[column] && markup` class="num"`
      }>${cell}</td>`
    );
    return markup`<tr${attributes}>${cells}</tr>`;
  });
  return markup`<table class="rows"><caption class="sr">${caption}</caption><thead><tr>${
    headings.map((text, column) => markup`<th scope="col"${isNumber[column] && markup` class="num"`}>${text}</th>`)
  }</tr></thead><tbody${id && markup` id="${id}" data-live`}>${written}</tbody></table>`;
}

export function pager(text: string, older: string | null): Html {
  return markup`<div class="pager"><span>${text}</span>${
    older !== null && markup`<a href="${older}">Older →</a>`
  }</div>`;
}

export function empty(title: Value, text: Value, action: Value = null): Html {
  return markup`<div class="empty"><h2>${title}</h2><p>${text}</p>${action}</div>`;
}

/** A text to copy. Without the script, a click selects it. */
export function copy(id: string, text: Value, label = "Copy"): Html {
  return markup`<div class="copy"><code id="${id}">${text}</code><button type="button" class="btn quiet" data-copy="${id}" hidden>${label}</button></div>`;
}

/** A QR code. It is on white even in dark mode, because cameras do not read an inverted one. */
export function qr(text: string, label: string): Html {
  const { data, size } = encode(text, { ecc: "M", border: 0 });
  let path = "";
  for (const [y, row] of data.entries()) {
    for (const [x, isDark] of row.entries()) if (isDark) path += `M${x} ${y}h1v1h-1z`;
  }
  const box = `-2 -2 ${size + 4} ${size + 4}`;
  return markup`<svg class="qr" viewBox="${box}" role="img" aria-label="${label}" shape-rendering="crispEdges"><path d="${path}" /></svg>`;
}

export function timeline(steps: readonly { mood: "ok" | "bad" | ""; title: Value; text: Value }[]): Html {
  return markup`<ol class="timeline">${
    steps.map(({ mood, title, text }) =>
      markup`<li class="${mood}"><b>${title}</b><p class="small soft">${text}</p></li>`
    )
  }</ol>`;
}

export function number(value: number): string {
  return value.toLocaleString("en-US");
}

/** The number with its noun: `1 peer`, `2 peers`. */
export function counted(count: number, noun: string, nouns = `${noun}s`): string {
  return `${number(count)} ${count === 1 ? noun : nouns}`;
}
