// Keeps the changing parts of a page up to date; every page works without it. No text becomes markup.
{
  const page = document, { dataset } = page.body;
  /** @returns {any[]} */
  const all = (from, what) => [...from.querySelectorAll(what)];
  const mayNotify = () => self.Notification?.permission;
  let tag = dataset.tag, timer = 0;

  /** Takes over children that are new or changed; the others keep focus, selection and scroll. */
  const merge = (old, next) => {
    const known = new Map([...old.children].map((child) => [child.id, child]));
    let place = old.firstElementChild;
    for (const child of [...next.children]) {
      const same = known.get(child.id);
      known.delete(child.id);
      for (const part of same ? all(same, "details[open]") : []) {
        next.querySelector(`#${CSS.escape(part.id)}`)?.toggleAttribute("open", true);
      }
      if (same && (same.isEqualNode(child) || same.contains(page.activeElement))) {
        if (same === place) place = place.nextElementSibling;
        else old.insertBefore(same, place);
      } else {
        if (same === place) place = place?.nextElementSibling ?? null;
        same?.remove();
        old.insertBefore(child, place);
      }
    }
    for (const gone of known.values()) gone.remove();
  };

  const take = (next) => {
    if (next.body.dataset.kind !== dataset.kind) return location.reload();
    const { unread, notice } = next.body.dataset;
    if (page.hidden && +unread > +dataset.unread && mayNotify() === "granted") new Notification(notice);
    dataset.unread = unread;
    tag = next.body.dataset.tag;
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
    call.setRequestHeader("If-None-Match", tag);
    call.onloadend = () => {
      const over = call.status === 403;
      if (over && !page.querySelector("textarea:not(:placeholder-shown)")) return location.reload();
      page.getElementById(over ? "over" : "lost")?.toggleAttribute("hidden", !over && call.status !== 0);
      if (over) return;
      if (call.status === 200) take(call.response);
      later();
    };
    call.send();
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, +dataset.every * (page.hidden ? 15_000 : 1000));
  };

  for (const log of all(page, ".log")) log.scrollTop = log.scrollHeight;
  if (tag) {
    later();
    page.onvisibilitychange = () => page.hidden ? later() : ask();
  }
  all(page, "[data-auto]")[0]?.click();

  // Another sign in a hostile link could end the quotes of the command that a person pastes.
  const invite = page.getElementById("invite");
  if (invite) {
    const { origin, pathname, hash } = location;
    const [code] = /^#svc_inv_[\w-]+(\.[\w-]+)*$/.exec(hash) ?? [];
    if (code) invite.textContent = invite.textContent.replace("ADDRESS", origin + pathname + code);
    for (const part of all(page, "[data-when]")) {
      part.hidden = !{ invite: code, none: !code, pairs: code?.includes(".") }[part.dataset.when];
    }
  }

  for (const button of all(page, "[data-copy],[data-notify]")) {
    const { copy } = button.dataset;
    button.hidden = !copy && mayNotify() !== "default";
    button.onclick = async () => {
      if (!copy) button.hidden = await Notification.requestPermission() !== "default";
      else {
        await navigator.clipboard.writeText(page.getElementById(copy).textContent);
        button.textContent = "Copied";
      }
    };
  }
  page.onkeydown = ({ key, ctrlKey, metaKey }) => {
    if (key === "Enter" && (ctrlKey || metaKey)) all(page, "form:has(:focus)")[0]?.requestSubmit();
  };
}
