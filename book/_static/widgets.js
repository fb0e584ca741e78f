/* Figures that move: a widget takes the place of a figure's picture, at its size, once its button is pressed. Its sliders
   stand below the figure from the start, where book.css keeps room for them, so that nothing moves when it is.

   Three kinds, told by data-widget: the landscape E(a) of one output and two equal classes with forty neurons on it; the
   scheme of three classes in theory; a network that laboratory.js samples in a worker. Primer and book/widgets.yml say where
   they stand. In Node, require("./widgets.js") gives what createLandscape returns. */

function createLandscape(solver) {
  "use strict";

  const REACH = 8, // readouts from −8 to 8
    STEP = 0.01,
    MARGIN = 1e-9; // from the field at which ReLU's density stops being one

  /** The saddle point: fields (τ, −τ) of the two classes, with ⟨a φ⟩ = 1 − T τ on the first.

      Returns {field, energy(a), readouts, barrier}: E less its maximum, of so many neurons their readouts, at the density's
      quantiles, and P times the depth of the pass at a = 0. Of ReLU's, one for each class is an outlier if the bulk does not fit the targets: ā² τ is what is lacking. */
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
    return { field: high, energy: (a) => height(a, high) - top, readouts, outlier, barrier: -numInputs * (height(0, high) - top) };
  }
  return { solve };
}

if (typeof module !== "undefined") module.exports = createLandscape(require("./explorer.js"));
else
  (function () {
    "use strict";

    const still = window.matchMedia("(prefers-reduced-motion: reduce)");
    const CODES = ["110", "101", "011", "111", "100", "010", "001", "000"]; // in the order shown
    const RATIOS = [0.5, 0.25, 0.25];
    const signed = (text) => text.replaceAll("-", "−");
    const short = (x) => signed(String(Number(x.toPrecision(2))));
    const nameOf = (code) => [...code].join("-");
    const percent = (p) => `${Math.round(100 * p)} %`;

    // Sliders: what they are called, their range, and the value at a position
    const same = (x) => Number(x.toFixed(2));
    const decades = (digits) => (x) => Number((10 ** x).toPrecision(digits));
    const SLIDERS = {
      T: { label: "Temperature T", sign: "T", range: [-3, -0.2, 0.05], at: decades(2) },
      P: { label: "Number of inputs P", sign: "P", range: [1.3, 3, 0.05], at: (x) => Math.round(10 ** x) },
      ym: { label: "Target of the other classes, y minus", sign: "y₋", range: [-1, 0.9, 0.02], at: same },
      N: { label: "Number of neurons N", sign: "N", range: [10, 120, 2], at: same },
      rho: { label: "Overlap of inputs within a class, rho", sign: "ρ", range: [0, 0.9, 0.05], at: same },
      time: { label: "Transitions of the cooling", sign: "transitions", range: [1, 3.4, 0.1], at: (x) => Math.round(10 ** x) },
      g: { label: "Scaling of the outputs, from one over root N at 0 to one over N at 1", sign: "scaling", range: [0, 1, 0.05], at: same }, // prettier-ignore
    };

    const KINDS = { landscape: makeLandscape, scheme: makeScheme, network: makeNetworkWidget };
    document.querySelectorAll("[data-widget]").forEach(prepare);

    function prepare(place) {
      const figure = document.getElementById(place.dataset.figure) ?? place.previousElementSibling,
        image = figure.querySelector("img"),
        replaced = image.closest("a") ?? image, // by the widget
        button = place.querySelector("button"),
        label = button.textContent,
        kind = KINDS[place.dataset.widget],
        picture = document.createElement("div"),
        controls = document.createElement("fieldset"),
        said = document.createElement("p"),
        values = {};
      let show = null;
      picture.className = "widget";
      controls.className = "controls";
      controls.disabled = true;
      said.setAttribute("role", "status");
      for (const item of place.dataset.sliders.split(" ")) {
        const [name, start] = item.split("="),
          { label: title, sign, range, at } = SLIDERS[name],
          row = document.createElement("label"),
          text = document.createElement("span"),
          shown = document.createElement("span"),
          input = Object.assign(document.createElement("input"), { type: "range", name, min: range[0], max: range[1], step: range[2] }); // prettier-ignore
        shown.dataset.of = name;
        text.append(`${sign} = `, shown);
        row.append(text, input);
        input.setAttribute("aria-label", title);
        input.value = start;
        const follow = () => {
          values[name] = at(Number(input.value));
          shown.textContent = signed(String(values[name]));
          input.setAttribute("aria-valuetext", `${title} ${values[name]}`);
        };
        follow();
        input.addEventListener("input", () => {
          follow();
          show();
        });
        controls.append(row);
      }
      const again = Object.assign(document.createElement("button"), { type: "button", textContent: "Another network" }),
        neuron = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 0, value: 0 });
      if (kind === makeNetworkWidget) {
        const row = document.createElement("label");
        row.append("one neuron", neuron);
        neuron.setAttribute("aria-label", "Neuron whose weights, response and readouts are shown");
        neuron.setAttribute("aria-valuetext", "none chosen");
        controls.append(row, again);
      }
      place.append(controls, said);
      const tell = (text) => {
        if (said.textContent !== text) said.textContent = text;
      };

      function begin() {
        const height = image.offsetHeight;
        picture.style.height = `${height}px`;
        figure.prepend(picture);
        show = kind({ place, picture, again, neuron, values, height, tell });
        let width = picture.clientWidth;
        new ResizeObserver(() => {
          if (!picture.clientWidth || picture.clientWidth === width) return;
          width = picture.clientWidth;
          show(true);
        }).observe(picture);
      }

      button.disabled = false;
      button.addEventListener("click", () => {
        const open = controls.disabled; // from now on
        const first = show === null;
        if (first) begin();
        controls.disabled = !open;
        picture.hidden = !open;
        replaced.style.display = open ? "none" : "";
        button.textContent = open ? "Back to the figure" : label;
        if (first) show();
        if (open) controls.querySelector("input").focus({ preventScroll: true });
      });
    }

    // --- the landscape ------------------------------------------------------------------------------

    const PANELS = { linear: ["linear", "#0072b2"], sigmoidal: ["sigmoidal", "#009e73"], relu: ["ReLU", "#d55e00"] };
    const LOWEST = -0.72,
      WIDEST = 6.5;

    function makeLandscape({ place, picture, values, height, tell }) {
      const landscape = createLandscape(createSolver()),
        names = place.dataset.panels.split(" ");
      return () => {
        const { T, P } = values,
          width = Math.max(300, picture.clientWidth),
          gap = 14,
          panel = (width - 34 - (names.length - 1) * gap) / names.length;
        const words = [];
        const parts = names.map((name, k) => {
          const { energy, readouts, outlier, barrier } = landscape.solve(name, P, T),
            [title, color] = PANELS[name],
            left = 34 + k * (panel + gap),
            x = (a) => (left + ((a + WIDEST) / (2 * WIDEST)) * panel).toFixed(1),
            y = (E) => (30 + (Math.min(1, (0.06 - E) / (0.06 - LOWEST)) * (height - 68))).toFixed(1); // prettier-ignore
          const line = Array.from({ length: 161 }, (_, i) => -WIDEST + (i * WIDEST) / 80).filter((a) => energy(a) > LOWEST - 0.3); // prettier-ignore
          const dots = readouts.map((a, i) => `<circle cx="${x(Math.max(-WIDEST, Math.min(WIDEST, a)))}" cy="${(y(energy(a)) - 4 - ((i * 7) % 5) * 2).toFixed(1)}" r="2.2" fill="${color}" fill-opacity="0.7"/>`); // prettier-ignore
          const spread = Math.sqrt(readouts.reduce((sum, a) => sum + a * a, 0) / readouts.length),
            split = name === "sigmoidal" && barrier > 2;
          words.push(`${title}: ${outlier === null ? (split ? `two groups at ±${Math.max(...readouts).toFixed(1)}` : `one cloud, spread ${spread.toFixed(2)}`) : `two outliers at ±${outlier.toFixed(1)}, a bulk at 0`}`); // prettier-ignore
          if (split && place.dataset.barrier !== undefined)
            words.push(`the pass between them lies PΔE = ${barrier.toFixed(1)} below: a neuron alone crosses about once in e^${barrier.toFixed(0)} attempts`); // prettier-ignore
          const ticks = [-5, 0, 5].map((a) => `<text x="${x(a)}" y="${height - 22}" text-anchor="middle">${signed(String(a))}</text>`); // prettier-ignore
          return `<text x="${left + panel / 2}" y="12" text-anchor="middle">${title}</text><path d="M${left},20V${height - 36}H${left + panel}" class="axis"/>${ticks.join("")}<text x="${left + panel / 2}" y="${height - 6}" text-anchor="middle">readout a</text><clipPath id="${place.dataset.figure}-clip-${k}"><rect x="${left}" y="0" width="${panel}" height="${height - 36}"/></clipPath><g clip-path="url(#${place.dataset.figure}-clip-${k})"><path d="M${line.map((a) => `${x(a)},${y(energy(a) < LOWEST ? LOWEST - 0.01 : energy(a))}`).join("L")}" fill="none" stroke="${color}" stroke-width="2"/>${dots.join("")}</g>${k ? "" : [0, -0.2, -0.4, -0.6].map((E) => `<text x="30" y="${Number(y(E)) + 4}" text-anchor="end">${signed(String(E))}</text>`).join("")}`; // prettier-ignore
        });
        picture.innerHTML = `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="E of the readout a, with forty neurons on it. ${words.join(". ")}.">${parts.join("")}</svg>`; // prettier-ignore
        tell(`${words.join("; ")}.`);
      };
    }

    // --- the scheme in theory -------------------------------------------------------------------------

    const dark = () => document.documentElement.dataset.theme === "dark";
    // red negative, blue positive
    const SIGNED = { light: [[178, 24, 43], [247, 247, 247], [33, 102, 172]], dark: [[255, 140, 110], [34, 38, 46], [120, 190, 255]] }; // prettier-ignore

    function shade(part) {
      const [low, zero, high] = SIGNED[dark() ? "dark" : "light"],
        x = Math.max(-1, Math.min(1, part)),
        end = x < 0 ? low : high;
      return zero.map((from, k) => Math.round(from + Math.abs(x) * (end[k] - from)));
    }

    function makeScheme({ picture, values, height, tell }) {
      const solver = createSolver();
      let start = null;
      return () => {
        const found = solver.solve({ ratios: RATIOS, numInputs: 100, yPlus: 1, yMinus: values.ym, temperature: values.T, start });
        start = found.converged ? { field: found.field } : null;
        if (!found.converged) {
          picture.replaceChildren();
          tell("The solve did not converge; nothing is drawn.");
          return;
        }
        const width = Math.max(260, picture.clientWidth),
          left = 92,
          used = CODES.filter((code) => found.occupancies[code] > 0.002),
          room = height - 22;
        let y = 22;
        const rows = used.map((code) => {
          const share = found.occupancies[code],
            high = share * room;
          let x = left;
          const cells = found.activations[code].map((value, c) => {
            const wide = RATIOS[c] * (width - left),
              cell = `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${(wide - 1).toFixed(1)}" height="${Math.max(0.5, high - 1).toFixed(1)}" fill="rgb(${shade(value)})"/>`; // prettier-ignore
            x += wide;
            return cell;
          });
          const label = high > 11 ? `<text x="0" y="${(y + high / 2 + 4).toFixed(1)}">${nameOf(code)} ${percent(share)}</text>` : ""; // prettier-ignore
          const row = `${label}<rect x="${left - 12}" y="${y.toFixed(1)}" width="9" height="${Math.max(0.5, high - 1).toFixed(1)}" style="fill: var(--code-${code})"/>${cells.join("")}`; // prettier-ignore
          y += high;
          return row;
        });
        const titles = [0.25, 0.625, 0.875].map((at, c) => `<text x="${left + at * (width - left)}" y="14" text-anchor="middle">class ${c}</text>`); // prettier-ignore
        const words = used.filter((code) => found.occupancies[code] >= 0.005).map((code) => `${nameOf(code)} ${percent(found.occupancies[code])}`).join(", "); // prettier-ignore
        picture.innerHTML = `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="Neurons sorted by code, their mean activations on three classes, darker blue for more: ${words}">${titles.join("")}${rows.join("")}</svg>`; // prettier-ignore
        tell(`Theory, P = 100: ${words}.`);
      };
    }

    // --- a sampled network ----------------------------------------------------------------------------

    /** Runs in a worker: one network at a time, a frame after every twentieth of its transitions. */
    function engine(laboratory, post) {
      let current = 0;
      return ({ run, options, frames }) => {
        current = run;
        const net = laboratory.makeNetwork(options),
          { transitions } = net.setting;
        let k = 0;
        const go = () => {
          if (run !== current) return;
          try {
            for (const to = Math.min(transitions, k + Math.ceil(transitions / frames)); k < to; k++)
              laboratory.advance(net, laboratory.temperatureAt(net.setting, k), k < 0.8 * transitions);
            const { N, P, firsts: ends } = net;
            post({ run, over: k === transitions, ends, N, P, ...laboratory.kernelOf(net), ...laboratory.observe(net) });
          } catch ({ message }) {
            post({ run, failure: message });
            return;
          }
          if (k < transitions) setTimeout(go);
        };
        go();
      };
    }

    function makeNetworkWidget({ place, picture, again, neuron, values, height, tell }) {
      const given = JSON.parse(place.dataset.options),
        canvas = document.createElement("canvas");
      const body = `const laboratory = (${createLaboratory})((${createSolver})().makeTask);
        onmessage = ((engine) => ({ data }) => engine(data))((${engine})(laboratory, (message) => postMessage(message)));`;
      let run = 0,
        seed = 0,
        frame = null,
        theory = null,
        worker = null;
      canvas.setAttribute("role", "img");
      canvas.style.cssText = `display: block; width: 100%; height: ${height}px`;
      picture.append(canvas);
      let chosen = null; // neuron
      canvas.addEventListener("click", ({ offsetX, offsetY }) => {
        if (frame && offsetX < picture.clientWidth - sideOf()) choose(order()[Math.max(0, Math.min(frame.N - 1, Math.floor(((offsetY - 16) / (height - 16)) * frame.N)))]); // prettier-ignore
      });
      neuron.addEventListener("input", () => frame && choose(Number(neuron.value)));

      function choose(next) {
        chosen = next;
        const { neuronCodes, means, readouts } = frame,
          words = `Neuron ${chosen + 1}${neuronCodes[chosen] === "000" ? "" : `, ${nameOf(neuronCodes[chosen])}`}: response to the classes ${means[chosen].map(short).join(", ")}; readouts ${readouts[chosen].map(short).join(", ")}`; // prettier-ignore
        Object.assign(neuron, { max: frame.N - 1, value: chosen });
        neuron.setAttribute("aria-valuetext", words);
        draw();
        tell(`${words}.`);
      }

      /** Rows of the picture: neurons sorted by code, the largest group first. */
      function order() {
        const { N, codes, neuronCodes } = frame,
          rank = (code) => (code === "000" ? 1e6 : 0) - 10 * (codes[code] ?? 0) + CODES.indexOf(code);
        return Array.from({ length: N }, (_, i) => i).sort((i, j) => rank(neuronCodes[i]) - rank(neuronCodes[j]) || i - j);
      }
      const sideOf = () => Math.min(height - 16, 0.38 * Math.max(260, picture.clientWidth));

      const options = () => ({
        ...{ ratios: RATIOS, yPlus: 1, yMinus: values.ym ?? given.yMinus, temperature: values.T ?? given.temperature },
        ...{ nonlinearity: given.nonlinearity, numInputs: values.P ?? given.numInputs, numNeurons: values.N ?? given.numNeurons },
        ...{ overlap: values.rho ?? 0, scaling: values.g ?? 1, transitions: values.time ?? 500, seed },
      });

      function start() {
        run++;
        chosen = null;
        worker ??= makeWorker();
        const asked = options();
        theory = given.nonlinearity === "sigmoidal" && asked.scaling === 1 ? createSolver().solve(asked) : null;
        worker?.postMessage({ run, options: asked, frames: still.matches ? 1 : 24 });
        tell("A network is drawn from the prior and cools …");
      }

      function makeWorker() {
        try {
          const made = new Worker(URL.createObjectURL(new Blob([body], { type: "text/javascript" })));
          made.onmessage = ({ data }) => received(data);
          made.onerror = (event) => tell(`The sampler stopped: ${event.message || "no reason given"}.`);
          return made;
        } catch {
          tell("This browser allows no workers here, so that nothing can be sampled.");
          return null;
        }
      }

      function received(message) {
        if (message.run !== run) return;
        if (message.failure) {
          tell(`The sampler stopped: ${message.failure}.`);
          return;
        }
        frame = message;
        neuron.max = frame.N - 1;
        draw();
        if (frame.over) {
          place.dataset.done = String(run);
          tell(`${describe()} Error per input ${short(frame.squaredError / frame.P)}, kernel along the classes: cosine ${frame.alongClasses.toFixed(2)}.`); // prettier-ignore
        }
      }

      function describe() {
        const { codes, N, means, participation } = frame;
        if (given.nonlinearity === "sigmoidal")
          return `${CODES.filter((code) => codes[code] || theory?.occupancies[code] * N > 0.3).map((code) => `${nameOf(code)} ${codes[code] ?? 0}${theory?.converged ? ` (theory ${(theory.occupancies[code] * N).toFixed(1)})` : ""}`).join(", ")}.`; // prettier-ignore
        const top = [0, 1, 2].map((c) => Math.max(...means.map((row) => row[c])));
        return `Strongest on the classes: ${top.map((x) => x.toFixed(1)).join(", ")}, over √N: ${top.map((x) => (x / Math.sqrt(N)).toFixed(2)).join(", ")}. A class is carried by ${participation.map((x) => x.toFixed(1)).join(", ")} neurons.`; // prettier-ignore
      }

      function draw() {
        const { N, P, activations, neuronCodes, kernel, mean, reach, ends } = frame,
          width = Math.max(260, picture.clientWidth),
          ratio = window.devicePixelRatio || 1,
          context = canvas.getContext("2d");
        Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
        context.scale(ratio, ratio);
        context.imageSmoothingEnabled = false;
        context.font = `11px ${getComputedStyle(picture).fontFamily}`;
        context.fillStyle = getComputedStyle(picture).color;
        const side = sideOf(),
          left = 14,
          wide = width - side - left - 18;
        context.fillText("activations: neurons by inputs", left, 10);
        const rows = order();
        const most = Math.max(...activations.map((row) => row.reduce((top, h) => Math.max(top, Math.abs(h)), 0))),
          unit = given.nonlinearity === "sigmoidal" ? 1 : Math.min(most, 4);
        matrix(context, [left, 16, wide, height - 16], N, P, (i, m) => activations[rows[i]][m] / unit);
        if (chosen === null) {
          context.fillText("kernel", width - side, 10);
          matrix(context, [width - side, 16, side, side], P, P, (m, n) => (kernel[m * P + n] - mean) / reach);
        } else {
          const [negative, , positive] = SIGNED[dark() ? "dark" : "light"].map((rgb) => `rgb(${rgb})`),
            seen = { weights: frame.preactivations[chosen], activations: activations[chosen], readouts: frame.readouts[chosen], ends: ends.slice(1, 3), overlap: values.rho ?? 0 }; // prettier-ignore
          drawNeuron(context, [width - side, 0, side, height], seen, { text: context.fillStyle, positive, negative });
        }
        const tall = (height - 16) / N;
        if (chosen !== null) {
          context.strokeStyle = getComputedStyle(picture).color;
          context.strokeRect(left + 0.5, 16 + rows.indexOf(chosen) * tall, wide - 1, tall);
        }
        rows.forEach((i, k) => {
          context.fillStyle = getComputedStyle(picture).getPropertyValue(`--code-${neuronCodes[i]}`);
          context.fillRect(0, 16 + k * tall, 9, tall + 0.3);
        });
        context.fillStyle = getComputedStyle(picture).color;
        for (const end of [ends[1], ends[2]]) context.fillRect(left + (end / P) * wide, 16, 0.7, height - 16);
        canvas.setAttribute("aria-label", `Activations of ${N} neurons on ${P} inputs, sorted by code, and the kernel. ${describe()}`); // prettier-ignore
      }

      again.addEventListener("click", () => {
        seed++;
        start();
      });
      let waiting = 0;
      new MutationObserver(() => frame && draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
      return (resized = false) => {
        if (resized) {
          if (frame) draw();
          return;
        }
        clearTimeout(waiting);
        waiting = setTimeout(start, run ? 120 : 0); // while a slider moves
      };
    }

    /** A matrix as a picture, values from −1 to 1. */
    function matrix(context, [x, y, width, height], rows, columns, value) {
      const image = new ImageData(columns, rows);
      for (let i = 0, at = 0; i < rows; i++)
        for (let j = 0; j < columns; j++, at += 4) image.data.set([...shade(value(i, j)), 255], at);
      const small = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
      small.getContext("2d").putImageData(image, 0, 0);
      context.drawImage(small, x, y, width, height);
    }
  })();
