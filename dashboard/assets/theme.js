// Runs before the page is drawn: the look that was chosen here before holds.
{
  const root = document.documentElement;
  root.classList.add("scripts");
  try {
    const look = localStorage.getItem("look");
    if (look === "light" || look === "dark") root.dataset.look = look;
  } catch {} // a browser that keeps nothing follows the system
}
