// What the book's equations need of MathJax 3.2.2: TeX with AMS, CHTML output, MathML for screen readers; a third of
// the bytes of the ready-made tex-chtml-full.js. mathjax.js is made of this file, in an unpacked mathjax-full@3.2.2, by
// npx esbuild@0.25.12 mathjax.ts --bundle --minify --target=es2020 --legal-comments=eof --outfile=mathjax.js
import { mathjax } from "./ts/mathjax.js";
import { TeX } from "./ts/input/tex.js";
import "./ts/input/tex/base/BaseConfiguration.js";
import "./ts/input/tex/ams/AmsConfiguration.js";
import { CHTML } from "./ts/output/chtml.js";
import { browserAdaptor } from "./ts/adaptors/browserAdaptor.js";
import { RegisterHTMLHandler } from "./ts/handlers/html.js";
import { AssistiveMmlHandler } from "./ts/a11y/assistive-mml.js";

const folder = (document.currentScript as HTMLScriptElement).src.replace(/[^/]*$/, "");
AssistiveMmlHandler(RegisterHTMLHandler(browserAdaptor()));
const given = (window as any).MathJax || {};

/** Equations that are wider than the page scroll; so that they also do by keyboard, they take the focus. */
function reach(changed: ResizeObserverEntry[]) {
  for (const shown of changed.map(({ target }) => target as HTMLElement))
    if (shown.scrollWidth > shown.clientWidth) shown.tabIndex = 0;
    else shown.removeAttribute("tabindex");
}

function start() {
  mathjax
    .document(document, {
      ...given.options,
      InputJax: new TeX({ packages: ["base", "ams"] }),
      OutputJax: new CHTML({ fontURL: folder + "output/chtml/fonts/woff-v2" }),
    })
    .render();
  document.fonts.ready.then(() => {
    const watch = new ResizeObserver(reach);
    document.querySelectorAll('mjx-container[display="true"]').forEach((shown) => watch.observe(shown));
  });
}
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
