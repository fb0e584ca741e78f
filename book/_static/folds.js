// Sections that are folded open when somebody prints, or follows a link into one of them
const SCREENS = 12; // that a page may have on a phone

function openFor(hash) {
  const place = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
  if (!place) return;
  const own = place.nextElementSibling; // what stands under a heading, or under a name of the API
  const closed = [place.closest("details.fold"), own && (own.matches("details.fold") ? own : own.querySelector(":scope > details.fold"))];
  for (const details of closed) if (details) details.open = true;
  if (closed.some(Boolean) || document.querySelector("details.fold")) place.scrollIntoView(); // sections above have closed, too
}

// What stands below a heading, or the description of a name, as something that can be closed
function fold(parts, title) {
  const details = document.createElement("details");
  details.className = "fold";
  const summary = details.appendChild(document.createElement("summary"));
  summary.textContent = title;
  parts[0].before(details);
  details.append(...parts);
}

// A long page on a narrow screen closes sections until it fits, as few as will do, the first two last
function foldLongest() {
  if (!matchMedia("screen and (max-width: 720px)").matches) return;
  const article = document.querySelector(".bd-article");
  const after = (heading) => {
    const parts = [];
    for (let next = heading.nextElementSibling; next && !next.matches("h1, h2, span[id]"); next = next.nextElementSibling) parts.push(next);
    return parts;
  };
  const sections = [...(article?.querySelectorAll("h2") ?? [])].map((heading) => [after(heading), "Show this section"]);
  for (const about of article?.querySelectorAll("dl.py > dd") ?? []) {
    if (about.parentElement.closest("dd")) continue; // a method, which closes with its class
    const first = about.querySelector(":scope > p");
    sections.push([[...about.childNodes], first ? first.textContent : "Show this"]);
  }
  const height = ([parts]) => parts.reduce((sum, part) => sum + (part.offsetHeight ?? 0), 0);
  const open = sections.filter(([parts]) => !parts.every((part) => part.matches?.("details.fold")));
  for (const group of [open.filter((one) => sections.indexOf(one) > 1), open.filter((one) => sections.indexOf(one) < 2)]) {
    group.sort((one, other) => height(other) - height(one));
    for (let excess; group.length && (excess = document.documentElement.scrollHeight - SCREENS * innerHeight) > 0;) {
      const enough = group.findLastIndex((one) => height(one) > excess); // the shortest that will do, else the longest
      fold(...group.splice(Math.max(enough, 0), 1)[0]);
    }
  }
}

addEventListener("DOMContentLoaded", () => {
  foldLongest();
  openFor(location.hash);
});
addEventListener("hashchange", () => openFor(location.hash));
addEventListener("beforeprint", () => document.querySelectorAll("details.fold").forEach((details) => { details.open = true; }));
