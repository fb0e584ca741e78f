/* The primer's landscape E(a) that moves: one output, two equal classes, targets ±1, with forty neurons on it.

   In Node, require("./landscape.js") gives what createLandscape returns; in the page, the widget takes the place of the
   figure before it once the button is pressed. Cumulants are those of explorer.js. */

function createLandscape(solver) {
  "use strict";

  const REACH = 8, // readouts from −8 to 8
    STEP = 0.01,
    MARGIN = 1e-9; // from the field at which ReLU's density stops being one

  /** The saddle point: fields (τ, −τ) of the two classes, with ⟨a φ⟩ = 1 − T τ on the first.

      Returns {field, energy(a), readouts}: E less its maximum, and of so many neurons their readouts, at the density's
      quantiles. Of ReLU's, one for each class is an outlier if the bulk does not fit the targets: ā² τ is what is lacking. */
  function solve(nonlinearity, numInputs, temperature, numNeurons = 40) {
    const cumulants = solver.cumulantsOf[nonlinearity],
      grid = Float64Array.from({ length: Math.round((2 * REACH) / STEP) + 1 }, (_, k) => -REACH + k * STEP);
    const height = (a, field) => -0.5 * a * a + 0.5 * (cumulants(a * field)[0] + cumulants(-a * field)[0]);

    /** Weights of the grid's readouts, and ⟨a φ⟩ on the first class. */
    function averaged(field) {
      const heights = grid.map((a) => height(a, field)),
        top = heights.reduce((most, E) => Math.max(most, E), -Infinity),
        weights = heights.map((E) => Math.exp(numInputs * (E - top)));
      let total = 0,
        sum = 0;
      weights.forEach((weight, k) => {
        total += weight;
        if (weight > 1e-16) sum += weight * grid[k] * cumulants(grid[k] * field)[1];
      });
      return { top, weights: weights.map((weight) => weight / total), mean: sum / total };
    }

    let low = 0,
      high = nonlinearity === "relu" ? Math.SQRT2 * (1 - MARGIN) : 1 / temperature;
    if (nonlinearity === "linear") high = Math.min(high, 1 - MARGIN);
    const lacking = (field) => 1 - temperature * field - averaged(field).mean;
    const missing = lacking(high);
    if (missing > 0) low = high;
    for (let k = 0; k < 45 && low < high; k++) {
      const middle = (low + high) / 2;
      if (lacking(middle) > 0) low = middle;
      else high = middle;
    }
    const { weights, top } = averaged(high),
      outlier = nonlinearity === "relu" && missing > 0 ? Math.sqrt((numNeurons * missing) / high) : null,
      readouts = outlier === null ? [] : [outlier, -outlier],
      count = numNeurons - readouts.length;
    let cumulative = 0,
      next = 0;
    weights.forEach((weight, k) => {
      cumulative += weight;
      for (; next < count && cumulative >= (next + 0.5) / count; next++) readouts.push(grid[k]);
    });
    return { field: high, energy: (a) => height(a, high) - top, readouts, outlier };
  }
  return { solve };
}

if (typeof module !== "undefined") module.exports = createLandscape(require("./explorer.js"));
else
  (function () {
    "use strict";

    const place = document.querySelector(".landscape");
    const figure = place.previousElementSibling?.matches("figure") ? place.previousElementSibling : null;
    const button = place.querySelector("button"),
      widget = place.querySelector(".widget"),
      picture = place.querySelector(".picture"),
      said = place.querySelector("[role=status]");
    const inputs = Object.fromEntries([...place.querySelectorAll("input")].map((input) => [input.name, input]));
    const PANELS = [
      ["linear", "linear", "#0072b2"],
      ["sigmoidal", "sigmoidal", "#009e73"],
      ["relu", "ReLU", "#d55e00"],
    ];
    const LOWEST = -0.72,
      WIDEST = 6.5;
    let landscape = null;

    function draw() {
      const T = Number((10 ** Number(inputs.T.value)).toPrecision(2)),
        P = Math.round(10 ** Number(inputs.P.value));
      const width = Math.max(300, picture.clientWidth),
        height = Math.round(0.34 * width) + 30,
        gap = 14,
        panel = (width - 34 - 2 * gap) / 3;
      const words = [];
      const parts = PANELS.map(([name, title, color], k) => {
        const { energy, readouts, outlier } = landscape.solve(name, P, T),
          left = 34 + k * (panel + gap),
          x = (a) => (left + ((a + WIDEST) / (2 * WIDEST)) * panel).toFixed(1),
          y = (E) => (20 + (Math.min(1, (0.06 - E) / (0.06 - LOWEST)) * (height - 58))).toFixed(1); // prettier-ignore
        const line = Array.from({ length: 161 }, (_, i) => -WIDEST + (i * WIDEST) / 80).filter((a) => energy(a) > LOWEST - 0.3); // prettier-ignore
        const dots = readouts.map((a, i) => `<circle cx="${x(Math.max(-WIDEST, Math.min(WIDEST, a)))}" cy="${(y(energy(a)) - 4 - ((i * 7) % 5) * 2).toFixed(1)}" r="2.2" fill="${color}" fill-opacity="0.7"/>`); // prettier-ignore
        const spread = Math.sqrt(readouts.reduce((sum, a) => sum + a * a, 0) / readouts.length);
        words.push(`${title}: ${outlier === null ? (name === "sigmoidal" && energy(0) < -2 / P ? `two groups at ±${Math.max(...readouts).toFixed(1)}` : `one cloud, spread ${spread.toFixed(2)}`) : `two outliers at ±${outlier.toFixed(1)}, a bulk at 0`}`); // prettier-ignore
        const ticks = [-5, 0, 5].map((a) => `<text x="${x(a)}" y="${height - 22}" text-anchor="middle">${String(a).replace("-", "−")}</text>`); // prettier-ignore
        return `<text x="${left + panel / 2}" y="12" text-anchor="middle">${title}</text><path d="M${left},20V${height - 36}H${left + panel}" class="axis"/>${ticks.join("")}<text x="${left + panel / 2}" y="${height - 6}" text-anchor="middle">readout a</text><clipPath id="landscape-${k}"><rect x="${left}" y="0" width="${panel}" height="${height - 36}"/></clipPath><g clip-path="url(#landscape-${k})"><path d="M${line.map((a) => `${x(a)},${y(energy(a) < LOWEST ? LOWEST - 0.01 : energy(a))}`).join("L")}" fill="none" stroke="${color}" stroke-width="2"/>${dots.join("")}</g>${k ? "" : [0, -0.2, -0.4, -0.6].map((E) => `<text x="30" y="${Number(y(E)) + 4}" text-anchor="end">${String(E).replace("-", "−")}</text>`).join("")}`; // prettier-ignore
      });
      picture.innerHTML = `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="E of the readout a for three nonlinearities, with forty neurons on it. ${words.join(". ")}.">${parts.join("")}</svg>`; // prettier-ignore
      widget.querySelector("[data-of=T]").textContent = String(T);
      widget.querySelector("[data-of=P]").textContent = String(P);
      inputs.T.setAttribute("aria-valuetext", `temperature ${T}`);
      inputs.P.setAttribute("aria-valuetext", `${P} inputs`);
      said.textContent = `${words.join("; ")}.`;
    }

    place.hidden = false;
    button.addEventListener("click", () => {
      landscape ??= createLandscape(createSolver());
      button.hidden = true;
      widget.hidden = false;
      if (figure) {
        figure.prepend(widget);
        figure.querySelector("img").style.display = "none";
      }
      draw();
      for (const input of Object.values(inputs)) input.addEventListener("input", draw);
      new ResizeObserver(draw).observe(widget);
      inputs.T.focus();
    });
  })();
