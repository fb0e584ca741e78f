// Filters of the scoreboard: choices come from the rows, and stand in the page's address
const form = document.querySelector(".scoreboard-filter");
const rows = [...document.querySelectorAll("table.scoreboard tbody tr")];
const reasons = document.querySelectorAll(".scoreboard-reasons > p");
const chosen = new URLSearchParams(location.search);

function show() {
  const wanted = new FormData(form);
  for (const row of [...reasons, ...rows]) {
    row.hidden = [...wanted].some(([name, value]) => value && !row.dataset[name].split(";").includes(value));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  if ([...wanted].some(([, value]) => value)) document.querySelectorAll("details.fold").forEach((fold) => { fold.open = true; });
  form.querySelector("output").textContent = `${shown} of ${rows.length} claims`;
}

for (const select of form.querySelectorAll("select")) {
  const values = [...new Set(rows.flatMap((row) => row.dataset[select.name].split(";")))].filter(Boolean);
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
form.hidden = false;
show();
