// Sections that are folded open when somebody prints, or follows a link into one of them
function openFor(hash) {
  const place = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
  const fold = place && place.closest("details.fold");
  if (!fold || fold.open) return;
  fold.open = true;
  place.scrollIntoView();
}

addEventListener("DOMContentLoaded", () => openFor(location.hash));
addEventListener("hashchange", () => openFor(location.hash));
addEventListener("beforeprint", () => document.querySelectorAll("details.fold").forEach((fold) => { fold.open = true; }));
