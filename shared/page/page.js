// Keeps the changing parts of a page up to date; every page works without it. No text becomes markup.
const page = document, { dataset } = page.body;
/** @returns {any[]} */
const all = (from, what) => [...from.querySelectorAll(what)];
const mayNotify = () => self.Notification?.permission;
const isTyped = () => page.querySelector("textarea:not(:placeholder-shown)");
const [lost, over] = all(page, "#lost,#over");
let free = 0, timer = 0;

/** Takes over children that are new or changed; the others keep focus, selection and scroll. */
const merge = (old, next) => {
  // First, because a child that moves loses focus, and is announced.
  for (const child of [...old.children]) if (!next.children.namedItem(child.id)) child.remove();
  let place = old.firstElementChild;
  for (const child of [...next.children]) {
    const same = old.children.namedItem(child.id) ?? child;
    for (const { id } of all(same, "details[open]")) {
      next.querySelector(`#${CSS.escape(id)}`)?.toggleAttribute("open", true);
    }
    if (same !== place) old.insertBefore(same, place);
    place = same.nextElementSibling;
    if (!same.isEqualNode(child) && !same.contains(page.activeElement)) same.replaceWith(child);
  }
};

const take = (next) => {
  const { kind, tag, unread, notice } = next.body.dataset;
  if (kind !== dataset.kind) return isTyped() || location.reload();
  if (page.hidden && +unread > +dataset.unread && mayNotify() === "granted") new Notification(notice);
  Object.assign(dataset, { tag, unread });
  page.title = next.title;
  for (const part of all(next, "[data-live]")) {
    const old = page.getElementById(part.id);
    if (!old) continue;
    const atEnd = old.scrollHeight - old.scrollTop - old.clientHeight < 48;
    merge(old, part);
    if (atEnd) old.scrollTop = old.scrollHeight;
  }
};

/** Asks for this page again; 304: no change. */
const ask = () => {
  const call = new XMLHttpRequest();
  call.open("GET", location.href);
  call.responseType = "document";
  call.timeout = 30_000; // One lost call would stop all later ones.
  call.setRequestHeader("If-None-Match", dataset.tag);
  call.onloadend = () => {
    const { status } = call;
    if (status === 403 && !isTyped()) return location.reload();
    over.hidden = status !== 403;
    lost.hidden = [200, 304, 403].includes(status);
    if (status === 200) take(call.response);
    if (status !== 403) later();
  };
  call.send();
};
const later = () => {
  clearTimeout(timer);
  timer = setTimeout(ask, +dataset.every * (page.hidden ? 15_000 : 1000));
};

for (const log of all(page, ".log")) log.scrollTop = log.scrollHeight;
if (dataset.tag) {
  later();
  page.onvisibilitychange = () => page.hidden ? later() : ask();
}
all(page, "[data-auto]")[0]?.click();

// Another sign in a hostile link could end the quotes of the command that a person pastes.
const invite = page.getElementById("invite");
if (invite) {
  self.onhashchange = () => location.reload();
  const [, at, code] = /^([^?#]*).*(#svc_inv_[\w-]+(\.[\w-]+)*)$/.exec(location.href) ?? [];
  if (code) invite.textContent = invite.textContent.replace("ADDRESS", at + code);
  for (const part of all(page, "[data-when]")) {
    part.hidden = !{ invite: code, none: !code, pairs: code?.includes(".") }[part.dataset.when];
  }
}

for (const button of all(page, "[data-copy],[data-notify]")) {
  const { copy } = button.dataset;
  button.hidden = copy ? !navigator.clipboard : mayNotify() !== "default";
  button.onclick = async () => {
    if (!copy) return button.hidden = await Notification.requestPermission() !== "default";
    await navigator.clipboard.writeText(page.getElementById(copy).textContent);
    button.textContent = "Copied";
  };
}
// A second click would lose the answer to the first. After Back, a click counts again.
self.onpageshow = () => free = 0;
page.onsubmit = ({ timeStamp: now }) => lost?.hidden !== false && now > free && (free = now + 10_000);
page.onkeydown = ({ key, ctrlKey, metaKey }) => {
  if (key === "Enter" && (ctrlKey || metaKey)) all(page, "form:has(:focus)")[0]?.requestSubmit();
};
