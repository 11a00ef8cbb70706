// The screen What if: plans after each pause in typing, and shows mistakes beside their lines. All text is in the page.
const form = document.getElementById("whatif");
const pause = 500; // milliseconds

function start() {
  const text = document.getElementById("text");
  const gutter = document.getElementById("gutter");
  const answer = document.getElementById("answer");
  const refused = document.getElementById("refused");
  let waiting = 0;
  let asking = null;

  function number() {
    const bad = new Set([...answer.querySelectorAll("[data-line]")].map((x) => Number(x.dataset.line)));
    const lines = text.value.split("\n").length;
    gutter.replaceChildren(...Array.from({ length: lines }, (_, i) => {
      const n = document.createElement("span");
      n.textContent = i + 1;
      if (bad.has(i + 1)) n.className = "bad";
      return n;
    }));
    gutter.scrollTop = text.scrollTop;
    text.toggleAttribute("aria-invalid", bad.size > 0);
  }

  function show(page) {
    const newer = page.getElementById("answer");
    answer.replaceChildren(...newer.childNodes);
    document.getElementById("outcome").textContent = answer.querySelector("[data-says]")?.textContent ?? "";
    number();
  }

  async function ask() {
    clearTimeout(waiting);
    asking?.abort();
    const mine = asking = new AbortController();
    answer.setAttribute("aria-busy", "true");
    try {
      const reply = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), signal: mine.signal });
      const body = await reply.text();
      const page = new DOMParser().parseFromString(body, "text/html");
      refused.hidden = page.getElementById("answer") !== null;
      if (refused.hidden) show(page);
      else refused.textContent = body; // the server says why in a sentence
    } catch { // given up for a newer text, or the server has gone, which the page says by itself
    } finally {
      if (asking === mine) answer.removeAttribute("aria-busy");
    }
  }

  text.addEventListener("input", () => {
    number();
    clearTimeout(waiting);
    if (text.value.trim()) waiting = setTimeout(ask, pause);
  });
  text.addEventListener("scroll", () => { gutter.scrollTop = text.scrollTop; });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  answer.addEventListener("click", (event) => {
    const line = event.target.closest("button.link")?.closest("[data-line]")?.dataset.line;
    if (!line) return;
    const lines = text.value.split("\n");
    const from = lines.slice(0, line - 1).reduce((sum, l) => sum + l.length + 1, 0);
    text.focus();
    text.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
    text.scrollTop = (line - 4) * (text.scrollHeight / lines.length);
  });
  document.addEventListener("click", async (event) => {
    const id = event.target.closest("[data-copy]")?.dataset.copy;
    if (!id) return;
    const source = document.getElementById(id);
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      const copied = document.querySelector(`[data-copied="${id}"]`);
      copied.hidden = false;
      setTimeout(() => { copied.hidden = true; }, 2000);
    } catch { // a page without TLS may not: then it is selected
      if (source.select) { source.focus(); source.select(); } else getSelection().selectAllChildren(source);
    }
  });
  number();
  if (form.dataset.ask !== undefined) ask(); // somebody has chosen a change
}

if (form) start();
