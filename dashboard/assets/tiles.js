// Lets people point at the tiles of the map, and walk them. What each tile says comes from the server when it is first needed.
const svgSpace = "http://www.w3.org/2000/svg";

function begin(figure) {
  const tip = figure.querySelector(".tip");
  const hint = tip.innerHTML;
  let lists, asked, at = -1;
  const map = () => [...figure.querySelectorAll("[data-map]")].find((m) => m.offsetParent !== null);
  const tiles = () => lists?.[map()?.dataset.map] ?? [];

  async function need() {
    asked ??= fetch(figure.dataset.tiles).then((answer) => answer.json());
    lists = await asked;
  }

  function show(index) {
    const svg = map()?.querySelector("svg.map");
    const tile = tiles()[index];
    for (const old of figure.querySelectorAll(".cursor")) old.remove();
    at = tile ? index : -1;
    if (!svg || !tile) {
      tip.innerHTML = hint;
      return;
    }
    const cursor = document.createElementNS(svgSpace, "rect");
    cursor.setAttribute("class", "cursor");
    ["x", "y", "width", "height"].forEach((name, i) => cursor.setAttribute(name, tile.at[i]));
    svg.append(cursor);
    const name = document.createElement("strong");
    name.textContent = tile.name;
    tip.replaceChildren(name, " " + tile.says);
  }

  function under(event) {
    const svg = map()?.querySelector("svg.map");
    if (!svg) return -1;
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return tiles().findIndex(({ at: [x, y, w, h] }) => p.x >= x && p.x < x + w && p.y >= y && p.y < y + h);
  }

  // next is the nearest tile whose middle is in a direction; what is aside counts double.
  function next(dx, dy) {
    const list = tiles();
    if (at < 0) return 0;
    const middle = ({ at: [x, y, w, h] }) => [x + w / 2, y + h / 2];
    const [cx, cy] = middle(list[at]);
    let best = at, least = Infinity;
    list.forEach((tile, i) => {
      const [x, y] = middle(tile);
      const along = (x - cx) * dx + (y - cy) * dy;
      const aside = Math.abs((x - cx) * dy) + Math.abs((y - cy) * dx);
      if (i !== at && along > 0 && along >= aside / 2 && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
    });
    return best;
  }

  const open = (index) => { const tile = tiles()[index]; if (tile) location.href = tile.to; };
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  figure.tabIndex = 0;
  figure.setAttribute("aria-label", figure.dataset.label);
  figure.addEventListener("pointerenter", need);
  figure.addEventListener("pointermove", (event) => { if (lists && event.target.closest("[data-map]")) show(under(event)); });
  figure.addEventListener("pointerleave", () => show(-1));
  figure.addEventListener("click", async (event) => { if (event.target.closest("[data-map]")) { await need(); open(under(event)); } });
  figure.addEventListener("keydown", async (event) => {
    const step = steps[event.key];
    if (step) {
      event.preventDefault();
      await need();
      show(next(...step));
    }
    if (event.key === "Enter") open(at);
    if (event.key === "Escape") show(-1);
  });
}

const beginAll = (within) => within.querySelectorAll(".tiles").forEach(begin);
beginAll(document);
document.addEventListener("tenon:live", (event) => beginAll(event.detail));
