// On dark pages a figure is shown as it was drawn for them: name-dark.svg lies beside name.svg
const DRAWN = /\/(?:_images|_static\/(?:paper\/[^/]+|thumbnails))\/[^/]+\.(?:svg|png)$/;

// Films show frames of their own, which lie on a light card
function isFilm(image) {
  const figure = image.closest("figure");
  return image.matches(".film") || !!(figure?.querySelector(".player, .rotation") ?? figure?.nextElementSibling?.matches(".player"));
}

function redraw() {
  const dark = document.documentElement.dataset.theme === "dark";
  for (const image of document.querySelectorAll(".published-figure img, img.published-figure, .chapter-card img")) {
    if (image.dataset.light === undefined) {
      if (!DRAWN.test(image.src) || isFilm(image)) continue;
      image.dataset.light = image.getAttribute("src");
      image.addEventListener("error", () => show(image, false));
    }
    show(image, dark);
  }
}

function show(image, dark) {
  if (image.classList.contains("drawn-dark") === dark) return;
  image.classList.toggle("drawn-dark", dark);
  image.setAttribute("src", dark ? image.dataset.light.replace(/(?=\.\w+$)/, "-dark") : image.dataset.light);
}

redraw();
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
