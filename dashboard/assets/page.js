// Keeps the page up to date, and gives it keys. All text is in the page.
const root = document.documentElement;

function switchLook() {
  const dark = root.dataset.look ? root.dataset.look === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.look = dark ? "light" : "dark";
  try { localStorage.setItem("look", root.dataset.look); } catch {} // then it holds for this page
}

// replaceLive puts the live parts of a newer page in the place of those that are shown, and keeps the focus.
function replaceLive(newer) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = newer.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    const focus = part.contains(document.activeElement) ? document.activeElement : null;
    const open = [...part.querySelectorAll("details")].map((d) => d.open);
    const scrolled = [...part.querySelectorAll(".scroll")].map((d) => d.scrollLeft);
    part.innerHTML = "";
    part.append(...next.childNodes);
    part.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
    part.querySelectorAll(".scroll").forEach((d, i) => { d.scrollLeft = scrolled[i] ?? 0; });
    if (focus?.id) (document.getElementById(focus.id) ?? part).focus({ preventScroll: true });
    else if (focus?.href) [...part.querySelectorAll("a[href]")].find((a) => a.href === focus.href)?.focus({ preventScroll: true });
  }
}

async function look() {
  const answer = await fetch(location.href, { cache: "no-store", headers: { "If-None-Match": root.dataset.tag } });
  if (answer.status === 304) {
    root.toggleAttribute("data-stale", false);
    return;
  }
  const newer = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!newer.documentElement.dataset.tag) throw new Error(answer.status); // not a page of ours, such as one that says to come later
  if (newer.documentElement.dataset.build !== root.dataset.build) {
    document.getElementById("stale").hidden = false;
    return;
  }
  root.dataset.tag = newer.documentElement.dataset.tag;
  every = Number(newer.documentElement.dataset.every);
  root.toggleAttribute("data-stale", newer.documentElement.hasAttribute("data-stale"));
  replaceLive(newer);
}

let every = Number(root.dataset.every);
let timer, looked = Date.now();
async function keepLooking() {
  if (!document.hidden && document.getElementById("stale").hidden) {
    const gone = document.getElementById("gone");
    try {
      await look();
      looked = Date.now();
      gone.hidden = true;
    } catch { // the next look may succeed
      gone.hidden = false;
      root.toggleAttribute("data-stale", true);
    }
  }
  lookLater();
}
function lookLater() {
  clearTimeout(timer);
  if (every > 0) timer = setTimeout(keepLooking, every);
}
lookLater();
document.addEventListener("visibilitychange", () => { // a tab that was hidden shows what was then
  if (document.hidden || every <= 0) return;
  if (Date.now() - looked > 2 * every) root.toggleAttribute("data-stale", true);
  keepLooking();
});

document.getElementById("theme").addEventListener("click", switchLook);
const keys = document.getElementById("keys");
document.getElementById("help").addEventListener("click", () => keys.showModal());
for (const select of document.querySelectorAll(".controls select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

const places = { n: "/", w: "/waiting", d: "/decisions", m: "/money", i: "/whatif", y: "/why" };
let going = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest("input, select, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (keys.open) return;
  if (going && places[event.key]) location.href = places[event.key];
  going = event.key === "g";
  if (event.key === "?") keys.showModal();
  const filter = document.getElementById("filter");
  if (event.key === "/" && filter) {
    event.preventDefault();
    filter.focus();
    filter.select();
  }
});
