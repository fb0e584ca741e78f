// Filters of the scoreboard: choices come from the rows, and stand in the page's address
const form = document.querySelector(".scoreboard-filter");
const rows = [...document.querySelectorAll("table.scoreboard tbody tr")];
const chosen = new URLSearchParams(location.search);

function show() {
  const wanted = new FormData(form);
  let shown = 0;
  for (const row of rows) {
    row.hidden = [...wanted].some(([name, value]) => value && row.dataset[name] !== value);
    shown += !row.hidden;
  }
  form.querySelector("output").textContent = `${shown} of ${rows.length} claims`;
}

for (const select of form.querySelectorAll("select")) {
  const values = [...new Set(rows.map((row) => row.dataset[select.name]))];
  select.append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
  if (values.includes(chosen.get(select.name))) select.value = chosen.get(select.name);
}
form.addEventListener("change", () => {
  show();
  const kept = [...new FormData(form)].filter(([, value]) => value);
  try {
    history.replaceState(null, "", `${location.pathname}?${new URLSearchParams(kept)}`);
  } catch {
    // a page opened as a file may not change its address in every browser
  }
});
document.querySelectorAll(".tiles a").forEach((tile) => tile.addEventListener("click", () => { form.reset(); show(); }));
form.hidden = false;
show();
