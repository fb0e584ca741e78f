/* The laboratory's page: controls, experiments and three stages, each with a network that a worker of its own samples
   by createLaboratory of laboratory.js, beside the theory that createSolver of explorer.js solves. Nothing is fetched, so
   that the page works from a local file, and nothing runs before a button is pressed. */

(function () {
  "use strict";

  const root = document.getElementById("laboratory");
  if (!root) return;
  const find = (name, place = root) => place.querySelector(`[data-part="${name}"]`);
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const solver = createSolver();
  const laboratory = createLaboratory(solver.makeTask);
  const CODES = ["110", "101", "011", "111", "100", "010", "001", "000"]; // in the order shown
  const NAMES = { linear: "Linear", sigmoidal: "Sigmoidal", relu: "ReLU", tanh: "tanh", softplus: "Softplus", relu_squared: "max(0, z)²" }; // prettier-ignore
  const START = { phi: ["linear", "sigmoidal", "relu"], r: [0.5, 0.25, 0.25], yp: 1, ym: 0.1, rho: 0, T: 0.01, N: 60, P: 60, time: 600, slope: 1, g: 1, seed: 1, method: "hmc" }; // prettier-ignore
  const HOT = 1; // where cooling begins
  const FRAMES = 200; // of a run that an eye follows

  const copy = (state) => structuredClone(state);
  let state = copy(START);
  const optionsOf = (s, nonlinearity) => ({ nonlinearity, ratios: s.r, yPlus: s.yp, yMinus: s.ym, overlap: s.rho, temperature: s.T, numNeurons: s.N, numInputs: s.P, transitions: s.time, slope: s.slope, scaling: s.g, seed: s.seed, method: s.method }); // prettier-ignore

  const signed = (text) => text.replace("-", "−");
  const round = (x, digits) => signed(x.toFixed(digits));
  const significant = (x) => signed(String(Number(x.toPrecision(2))));
  const nameOf = (code) => [...code].join("-");

  // --- a network in a worker ----------------------------------------------------------------------

  /** Answers messages {type: start, walk, pause, resume, step, swap, theory}; runs a network a few transitions at a time.

      Self-contained, as it is written into a worker. After every few transitions a frame is posted: what `observe` and
      `kernelOf` return. The sequence of samples depends on options alone, and not on when frames are drawn. */
  function createEngine(solver_, lab, post) {
    let net = null,
      plan = null, // {at(k), count, done, settled, frames, most, wait}
      paused = false,
      timer = null,
      run = 0,
      lastDivided = NaN; // temperature at which groups were last seen on a walk, whatever frames are drawn

    function frame(why) {
      const seen = lab.observe(net),
        { N, P, overlap } = net;
      const { kernel, ...others } = lab.kernelOf(net),
        stores = [kernel, seen.activations[0], seen.preactivations[0]].map(({ buffer }) => buffer); // handed over, not copied
      post({ type: "frame", run, why, done: plan?.done ?? 0, count: plan?.count ?? 0, ...seen, ...others, kernel, N, P, overlap, lastDivided }, stores); // prettier-ignore
    }

    /** So many transitions, or fewer where they take longer than a frame may: a large network is seen as often as a small one. */
    function advance(count, until = Infinity) {
      for (let k = 0; k < count && plan.done < plan.count && Date.now() < until; k++, plan.done++) {
        lab.advance(net, plan.at(plan.done), plan.done < plan.settled);
        if (plan.watch && plan.done % 5 === 0 && divided(lab.observe(net))) lastDivided = net.temperature;
      }
    }

    /** Whether some class tells groups apart: at least one neuron in twenty is clearly active on it, as many clearly silent. */
    function divided({ means }) {
      const many = (of) => means.filter(of).length >= means.length / 20;
      return [0, 1, 2].some((c) => many((mean) => mean[c] < 0.35) && many((mean) => mean[c] > 0.65));
    }

    function failed({ message }) {
      plan = null;
      post({ type: "failure", run, message });
    }

    function tick() {
      timer = null;
      if (paused || !plan) return;
      try {
        goOn();
      } catch (error) {
        failed(error);
      }
    }

    function goOn() {
      const began = Date.now(),
        each = Math.max(1, Math.ceil(plan.count / plan.frames));
      advance(each, began + plan.most);
      const over = plan.done >= plan.count;
      frame(over ? "ended" : "running");
      if (!over) timer = setTimeout(tick, Math.max(0, plan.wait - (Date.now() - began)));
    }

    function set(next) {
      if (timer !== null) clearTimeout(timer);
      plan = { done: 0, ...next };
      paused = false;
      timer = setTimeout(tick, 0);
    }

    return (message) => {
      try {
        if (message.run !== undefined) ({ run } = message);
        if (message.type === "start") {
          net = lab.makeNetwork(message.options);
          const { setting } = net;
          plan = null;
          frame("drawn");
          set({ ...message.pace, count: setting.transitions, settled: Math.floor(0.8 * setting.transitions), at: (k) => lab.temperatureAt(setting, k) }); // prettier-ignore
        } else if (message.type === "theory") {
          let theory;
          try {
            theory = theoryOf(message.options);
          } catch (error) {
            theory = { none: `the solver stopped: ${error.message}` }; // the network goes on
          }
          post({ type: "theory", run, theory, at: message.options.temperature });
        } else if (net && message.type === "walk") {
          // from the present temperature to another, evenly in its logarithm, and then some time there
          const from = net.temperature,
            { to, count, hold } = message;
          lastDivided = NaN;
          set({ ...message.pace, watch: true, count: count + hold, settled: Infinity, at: (k) => to * Math.exp(Math.max(0, 1 - (k + 1) / count) * Math.log(from / to)) }); // prettier-ignore
        } else if (net && message.type === "pause") {
          paused = true;
          frame("paused");
        } else if (net && message.type === "resume") {
          paused = false;
          if (timer === null && plan && plan.done < plan.count) tick();
        } else if (net && message.type === "step") {
          paused = true;
          if (plan && plan.done < plan.count) advance(1);
          else lab.advance(net, net.temperature);
          frame("stepped");
        } else if (net && message.type === "swap") {
          lab.swap(net, ...message.pair);
          frame("swapped");
        }
      } catch (error) {
        failed(error);
      }
    };

    /** What this page's theory says of a network, or {none: why it has none}. */
    function theoryOf(options) {
      const { nonlinearity, overlap, slope, scaling } = options,
        plain = overlap === 0 && slope === 1,
        bounded = lab.NONLINEARITIES[nonlinearity].bounded;
      if (scaling !== 1) return { none: "it is of the non-lazy scaling, 1" };
      if (options.method !== "hmc") return { none: "it is of the posterior, from which plain Langevin's steps lead away" };
      if (!bounded && slope !== 1) return { none: "where φ has no bound this page solves it at slope 1 alone" };
      if (nonlinearity === "linear") return solver_.solveLinear(options);
      if (nonlinearity === "relu_squared") return { none: "this page does not solve it for max(0, z)²; the library does, on orthogonal inputs" };
      if (nonlinearity === "softplus" && !plain) return { none: "on inputs that are alike softplus neurons are never quite silent, and this page has no tables of them" }; // prettier-ignore
      const found = bounded ? solver_.solve(options) : plain ? solver_.solveRelu(options) : solver_.solvePopulation(options); // prettier-ignore
      if (!found.converged) return { none: overlap > 0 && !bounded ? "those that share a class are so few here that the crowd's theory does not hold; one neuron may carry it" : "the solve did not converge" }; // prettier-ignore
      delete found.densities;
      if (nonlinearity === "sigmoidal" && plain)
        found.critical = solver_.column(options, [0.02, 0.035, 0.06, 0.1, 0.18, 0.3, 0.6]).critical;
      return found;
    }
  }

  /** Sends messages to an engine in a worker; where there is none, to one here. */
  function makeEngine(answer) {
    const body = `const solver = (${createSolver})(), laboratory = (${createLaboratory})(solver.makeTask);
      const engine = (${createEngine})(solver, laboratory, (message, stores) => postMessage(message, stores));
      onmessage = ({ data }) => engine(data);`;
    try {
      const worker = new Worker(URL.createObjectURL(new Blob([body], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => answer(data);
      worker.onerror = (event) => answer({ type: "failure", message: event.message || "the worker stopped" });
      return (message) => worker.postMessage(message);
    } catch {
      const engine = createEngine(solver, laboratory, (message) => setTimeout(() => answer(message)));
      return (message) => setTimeout(() => engine(message));
    }
  }

  // --- colors and canvases ------------------------------------------------------------------------

  const dark = () => document.documentElement.dataset.theme === "dark";
  // red negative, blue positive
  const SIGNED = { light: [[178, 24, 43], [247, 247, 247], [33, 102, 172]], dark: [[255, 140, 110], [34, 38, 46], [120, 190, 255]] }; // prettier-ignore
  const colors = new Map(); // read once for each theme
  function colorOf(name) {
    if (!colors.has(name)) colors.set(name, getComputedStyle(root).getPropertyValue(name).trim());
    return colors.get(name);
  }

  /** A canvas's context in CSS pixels, cleared. */
  function prepared(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1,
      [wide, high] = [width, height].map((x) => Math.round(x * ratio)),
      context = canvas.getContext("2d");
    if (canvas.width !== wide || canvas.height !== high) {
      Object.assign(canvas, { width: wide, height: high });
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.font = `11px ${getComputedStyle(root).fontFamily}`; // here alone, as the browser brings all styles up to date for it
    }
    context.clearRect(0, 0, width + 1, height + 1);
    context.fillStyle = context.strokeStyle = colorOf("color");
    return { context, width, height };
  }

  /** The largest size of a number in the rows, or `enough`. */
  function largest(rows, enough) {
    let most = 0;
    for (const row of rows) for (const x of row) most = Math.max(most, Math.abs(x));
    return Math.min(most, enough);
  }

  const scratch = { canvas: document.createElement("canvas"), image: null }; // a pixel for each number of a matrix
  scratch.context = scratch.canvas.getContext("2d", { willReadFrequently: true }); // in memory, where its pixels are made

  const SHADES = 255, // from white to the darkest
    palette = {}; // by theme

  /** Pixels from the lowest color over white to the highest. */
  function shadesOf([low, zero, high]) {
    const bytes = new Uint8ClampedArray(4 * (2 * SHADES + 1));
    for (let k = -SHADES; k <= SHADES; k++) {
      const end = k < 0 ? low : high;
      bytes.set([...zero.map((from, c) => from + (Math.abs(k) / SHADES) * (end[c] - from)), 255], 4 * (k + SHADES));
    }
    return new Uint32Array(bytes.buffer);
  }

  /** A matrix, given by its rows, as a picture: numbers less `middle`, in units of `top`. */
  function drawMatrix(context, [x, y, width, height], rows, middle, top) {
    const columns = rows[0].length;
    if (scratch.canvas.width !== columns || scratch.canvas.height !== rows.length) {
      Object.assign(scratch.canvas, { width: columns, height: rows.length });
      scratch.image = new ImageData(columns, rows.length);
      scratch.pixels = new Uint32Array(scratch.image.data.buffer);
    }
    const { image, pixels } = scratch,
      shades = (palette[dark() ? "dark" : "light"] ??= shadesOf(SIGNED[dark() ? "dark" : "light"])),
      unit = SHADES / top;
    let at = 0;
    for (const row of rows)
      for (let j = 0; j < columns; j++, at++) {
        const part = (row[j] - middle) * unit;
        pixels[at] = shades[(Math.max(-SHADES, Math.min(SHADES, part)) + SHADES + 0.5) | 0];
      }
    scratch.context.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(scratch.canvas, x, y, width, height);
  }

  // --- a stage ------------------------------------------------------------------------------------

  const PICTURES = { neurons: 250, cloud: 210, kernel: 150, outputs: 150, one: 110, trace: 110 };

  function makeStage(place, index) {
    const stage = { place, index, frame: null, theory: undefined, trace: [], chosen: null };
    const select = document.createElement("select");
    select.setAttribute("aria-label", `Nonlinearity of network ${index + 1}`);
    for (const [value, text] of Object.entries(NAMES)) select.add(new Option(text, value));
    select.addEventListener("change", () => {
      const next = copy(state);
      next.phi[index] = select.value;
      change(next);
    });
    place.append(select);
    stage.select = select;
    stage.canvases = {};
    const titles = { neurons: "Activations: neurons by inputs", cloud: "Readouts a₀ and a₁; rings: theory", one: "One neuron: click it above, or move the slider", kernel: "Kernel", outputs: "Outputs on targets", trace: "Error, T (dashed), energy (thin)" }; // prettier-ignore
    const pair = document.createElement("div");
    pair.className = "pair";
    for (const [name, title] of Object.entries(titles)) {
      const box = document.createElement("figure"),
        caption = document.createElement("figcaption"),
        canvas = document.createElement("canvas");
      caption.textContent = title;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${title}: no network yet`);
      box.append(caption, canvas);
      canvas.style.height = `${PICTURES[name]}px`;
      if (name === "trace" || name === "one") box.className = "wide";
      if (name === "one") box.append(chooserOf(stage));
      if (name === "kernel" || name === "outputs") pair.append(box);
      else place.append(box);
      if (name === "outputs") place.append(pair);
      stage.canvases[name] = canvas;
    }
    stage.canvases.neurons.addEventListener("click", ({ offsetY }) => {
      if (!stage.frame) return;
      const row = Math.floor((offsetY / (PICTURES.neurons - 4)) * stage.frame.N);
      choose(stage, orderOf(stage.frame, stage.phi)[Math.min(stage.frame.N - 1, row)]);
    });
    const table = document.createElement("table"),
      note = document.createElement("p");
    table.className = "comparison";
    note.className = "note";
    place.insertBefore(table, pair);
    place.append(note);
    Object.assign(stage, { table, note });
    stage.send = null;
    return stage;
  }

  /** The slider by which a neuron is chosen without a mouse. */
  function chooserOf(stage) {
    const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 0, step: 1, value: 0, disabled: true }); // prettier-ignore
    slider.setAttribute("aria-label", `Neuron of network ${stage.index + 1}`);
    slider.setAttribute("aria-valuetext", "none chosen");
    slider.addEventListener("input", () => choose(stage, Number(slider.value)));
    stage.chooser = slider;
    return slider;
  }

  function choose(stage, neuron) {
    stage.chosen = neuron;
    draw(stage);
  }

  const stages = [...root.querySelectorAll(".stage")].map(makeStage);
  let runs = 0; // a number for each start, so that late frames of an old one are dropped
  let trial = null; // the experiment under way
  let kind = "";
  let paused = false;

  function engineOf(stage) {
    stage.send ??= makeEngine((message) => received(stage, message));
    return stage.send;
  }

  let theorist = null; // a worker for theory, so that no network waits while it is solved
  function askTheory(stage, options) {
    theorist ??= makeEngine((message) => {
      for (const each of stages) if (message.run === undefined || message.run === each.run) hearTheory(each, message);
    });
    theorist({ type: "theory", run: stage.run, options });
  }

  function hearTheory(stage, { theory = { none: "its solver stopped" }, at }) {
    const { none } = theory;
    Object.assign(stage, { theory: none ? null : theory, none, at });
    drawSoon(stage);
    if (find("answer").textContent) ended(); // it came after the networks had ended: the answer may name it
  }

  function received(stage, message) {
    if (message.run !== undefined && message.run !== stage.run) return;
    if (message.type === "failure") {
      Object.assign(stage, { busy: false, failed: `${NAMES[stage.phi]} network: ${message.message}. What is drawn is its last sample before; try another setting.` }); // prettier-ignore
      root.classList.add("failed");
      say(stage.failed);
      ended();
    } else {
      stage.frame = message;
      stage.busy = message.why === "running" || message.why === "drawn";
      markStale(stage); // settings may have changed under way
      if (message.why !== "swapped") stage.trace.push([message.transitions, message.energy / (message.N * message.P), message.temperature, message.squaredError / message.P]); // prettier-ignore
      drawSoon(stage);
      if (message.why === "ended") ended();
      if (message.why === "swapped") swapped(stage);
    }
    showButtons();
  }

  // --- drawing a stage ----------------------------------------------------------------------------

  /** Order of the rows: by code, largest group first; of a linear network by its mean on class 0. */
  function orderOf({ neuronCodes, codes, means, N }, phi) {
    const order = Array.from({ length: N }, (_, i) => i);
    if (phi === "linear") return order.sort((i, j) => means[j][0] - means[i][0]);
    const rank = (code) => (code === "000" ? 1e6 : 0) - (codes[code] ?? 0) * 10 + CODES.indexOf(code);
    return order.sort((i, j) => rank(neuronCodes[i]) - rank(neuronCodes[j]) || i - j);
  }

  const waiting = new Set(); // stages that are drawn at the screen's next frame, all at once

  function drawSoon(stage) {
    if (!waiting.size)
      requestAnimationFrame(() => {
        draw(...waiting);
        waiting.clear();
      });
    waiting.add(stage);
  }

  /** Pictures are measured when the page's width changes alone. A width that is read, or a letter that is painted, after a
      word was written has the browser lay out the whole page; so words come after all pictures. */
  function draw(...some) {
    some.forEach(paint);
    some.forEach(write);
  }

  function measure() {
    for (const stage of stages) stage.widths = Object.values(stage.canvases).map((canvas) => canvas.parentElement.clientWidth);
  }

  function paint(stage) {
    const { frame, canvases, widths } = stage,
      phi = state.phi[stage.index];
    if (!widths) return; // the page has no size yet
    Object.entries(canvases).forEach(([name, canvas], k) => {
      const view = prepared(canvas, widths[k], PICTURES[name]);
      if (frame && stage.phi === phi) PAINTERS[name](stage, view, canvas);
      else if (frame) view.context.fillText("press a button to run", 8, 20);
    });
  }

  function write(stage) {
    const { frame, place } = stage,
      phi = state.phi[stage.index];
    compare(stage);
    if (!frame) {
      stage.note.textContent = "";
      return;
    }
    const codes = Object.keys(frame.codes).filter((code) => code !== "000" && frame.codes[code] >= frame.N / 20).length, // others are single neurons' noise
      some = (number, what) => `${number || "no"} ${what}${number === 1 ? "" : "s"}`,
      ofCodes = laboratory.NONLINEARITIES[phi].bounded ? `${some(codes, "code")} in use` : some(frame.N - (frame.codes["000"] ?? 0), "outlier"); // prettier-ignore
    const who = phi === "linear" ? "every neuron answers in its own degree" : ofCodes;
    stage.summary = `${NAMES[stage.phi]}: T = ${significant(frame.temperature)}, error per input ${significant(frame.squaredError / frame.P)}, ${who}`; // prettier-ignore
    stage.note.textContent = `Transition ${frame.transitions}, T = ${significant(frame.temperature)}. Error per input ${significant(frame.squaredError / frame.P)}. A class is carried by ${frame.participation.map((x) => round(x, 1)).join(", ")} neurons (participation). Kernel along the targets': cosine ${round(frame.alongClasses, 2)}.${stage.theory ? ` Theory: at T = ${significant(stage.at)}${stage.theory.kernel ? ", of networks so wide that many neurons share a class" : ""}.${weak(stage) ? " Its outliers are those of infinitely many neurons; so few hold weaker ones, or none, where targets lie close together or T is high." : ""}` : stage.theory === null ? ` No theory beside it: ${stage.none}.` : ""}`; // prettier-ignore
    Object.assign(place.dataset, { energy: frame.energy, codes: JSON.stringify(frame.codes), transitions: frame.transitions, why: frame.why }); // prettier-ignore
  }

  const PAINTERS = {
    neurons({ frame, phi, chosen }, { context, width, height }, canvas) {
      const order = orderOf(frame, phi),
        left = phi === "linear" ? 0 : 14,
        size = (height - 4) / frame.N,
        bounded = laboratory.NONLINEARITIES[phi].bounded;
      drawMatrix(context, [left, 0, width - left, height - 4], order.map((i) => frame.activations[i]), 0, bounded ? 1 : largest(frame.activations, 4)); // prettier-ignore
      if (left)
        order.forEach((i, k) => {
          context.fillStyle = colorOf(`--code-${frame.neuronCodes[i]}`);
          context.fillRect(0, k * size, 9, size + 0.3);
        });
      context.fillStyle = context.strokeStyle = colorOf("color");
      if (chosen !== null) context.strokeRect(left + 0.5, order.indexOf(chosen) * size - 0.5, width - left - 1, size + 1);
      classEnds(frame).forEach((m) => context.fillRect(left + (m / frame.P) * (width - left), 0, 0.7, height - 4)); // prettier-ignore
      canvas.setAttribute("aria-label", `Activations of ${frame.N} neurons on ${frame.P} inputs sorted by class, neurons sorted by code: ${wordsOf(frame.codes, phi)}`); // prettier-ignore
    },
    cloud({ frame, theory, phi, chosen }, { context, width, height }, canvas) {
      const rings = ringsOf(theory, phi, frame.N),
        reach = 1.12 * Math.max(0.3, ...rings.flatMap(({ a }) => [Math.abs(a[0]), Math.abs(a[1])]), ...frame.readouts.flatMap(([x, y]) => [Math.abs(x), Math.abs(y)])), // prettier-ignore
        unit = Math.min(width, height) / 2 / reach,
        at = (a) => [width / 2 + a[0] * unit, height / 2 - a[1] * unit];
      context.globalAlpha = 0.3;
      context.fillRect(0, height / 2, width, 0.7);
      context.fillRect(width / 2, 0, 0.7, height);
      context.globalAlpha = 1;
      context.textAlign = "right";
      context.fillText(`a₀ to ${significant(reach / 1.12)}`, width - 2, height - 6);
      context.textAlign = "left";
      frame.readouts.forEach((a, i) => {
        context.fillStyle = phi === "linear" ? colorOf("--output-0") : colorOf(`--code-${frame.neuronCodes[i]}`);
        context.globalAlpha = 0.75;
        context.beginPath();
        context.arc(...at(a), 2.6, 0, 7);
        context.fill();
      });
      context.globalAlpha = 1;
      if (chosen !== null) {
        context.fillStyle = colorOf("color");
        context.beginPath();
        context.arc(...at(frame.readouts[chosen]), 4, 0, 7);
        context.fill();
      }
      context.lineWidth = 1.6;
      for (const { a, code, spread, angle } of rings) {
        context.strokeStyle = code ? colorOf(`--code-${code}`) : colorOf("color");
        context.beginPath();
        if (spread) context.ellipse(...at(a), 2 * spread[0] * unit, 2 * spread[1] * unit, angle, 0, 7);
        else context.arc(...at(a), 8, 0, 7);
        context.stroke();
      }
      canvas.setAttribute("aria-label", `Readout weights to outputs 0 and 1, one dot for each of ${frame.N} neurons; ${rings.length ? `${rings.length} rings where theory has its peaks` : "no theory for this network here"}`); // prettier-ignore
    },
    one({ frame, phi, chosen, chooser }, { context, width, height }, canvas) {
      if (chooser.disabled || Number(chooser.max) !== frame.N - 1) Object.assign(chooser, { max: frame.N - 1, disabled: false });
      if (chosen === null) return;
      const [negative, , positive] = SIGNED[dark() ? "dark" : "light"].map((rgb) => `rgb(${rgb})`),
        { preactivations, activations, readouts, means, neuronCodes, overlap } = frame;
      drawNeuron(context, [0, 0, width, height - 4], { weights: preactivations[chosen], activations: activations[chosen], readouts: readouts[chosen], ends: classEnds(frame), overlap }, { text: context.fillStyle, positive, negative }); // prettier-ignore
      const words = `Neuron ${chosen + 1}${phi === "linear" ? "" : `, ${neuronCodes[chosen] === "000" ? "in no group" : nameOf(neuronCodes[chosen])}`}: response to the classes ${means[chosen].map(significant).join(", ")}; readouts ${readouts[chosen].map(significant).join(", ")}`; // prettier-ignore
      canvas.setAttribute("aria-label", words);
      chooser.value = chosen;
      chooser.setAttribute("aria-valuetext", words);
    },
    kernel({ frame }, { context, width, height }, canvas) {
      const side = Math.min(width, height - 4),
        { kernel, mean, reach, P } = frame;
      drawMatrix(context, [0, 0, side, side], Array.from({ length: P }, (_, m) => kernel.subarray(m * P, m * P + P)), mean, reach); // prettier-ignore
      canvas.setAttribute("aria-label", `Kernel between all pairs of ${frame.P} inputs, its mean subtracted`);
    },
    outputs({ frame }, { context, width, height }, canvas) {
      const { yp, ym } = state,
        low = Math.min(yp, ym) - 0.5,
        high = Math.max(yp, ym) + 0.5,
        y = (f) => height - 4 - ((f - low) / (high - low)) * (height - 8),
        x = (m) => ((m + 0.5) / frame.P) * width;
      const ends = [0, ...classEnds(frame), frame.P];
      for (let r = 0; r < 3; r++) {
        context.fillStyle = colorOf(`--output-${r}`);
        context.globalAlpha = 0.5;
        for (let c = 0; c < 3; c++) {
          const from = (ends[c] / frame.P) * width,
            to = (ends[c + 1] / frame.P) * width;
          context.fillRect(from, y(c === r ? yp : ym) - 0.5 + (r - 1), to - from - 1, 1);
        }
        context.globalAlpha = 0.9;
        frame.outputs.forEach((f, m) => context.fillRect(x(m) - 1, y(f[r]) - 1, 2.2, 2.2));
      }
      context.globalAlpha = 1;
      canvas.setAttribute("aria-label", `Three outputs on all inputs beside their targets ${significant(yp)} and ${significant(ym)}; mean squared error ${significant(frame.squaredError / frame.P)}`); // prettier-ignore
    },
    trace({ trace }, { context, width, height }, canvas) {
      if (trace.length < 2) return;
      const left = 4,
        bottom = height - 16,
        last = trace.at(-1)[0],
        first = trace[0][0],
        x = (k) => left + ((k - first) / Math.max(1, last - first)) * (width - left - 4);
      const line = (values, dash, thickness) => {
        const low = Math.min(...values),
          span = Math.max(1e-9, Math.max(...values) - low);
        context.setLineDash(dash);
        context.lineWidth = thickness;
        context.beginPath();
        values.forEach((value, k) => context.lineTo(x(trace[k][0]), bottom - ((value - low) / span) * (bottom - 6)));
        context.stroke();
      };
      const series = (k, of) => trace.map((row) => of(row[k]));
      line(series(3, Math.log), [], 1.8);
      line(series(2, Math.log), [4, 3], 1.2);
      line(series(1, (U) => U), [], 0.7);
      const [, U, T, error] = trace.at(-1);
      context.fillText(`error ${significant(error)}, T ${significant(T)}, U/NP ${significant(U)}`, left, height - 3);
      canvas.setAttribute("aria-label", `Over ${last} transitions the error per input went from ${significant(trace[0][3])} to ${significant(error)}, the temperature from ${significant(trace[0][2])} to ${significant(T)}, the energy per neuron and input from ${significant(trace[0][1])} to ${significant(U)}`); // prettier-ignore
    },
  };

  const classEnds = ({ P }) => solver.makeTask({ ratios: state.r, numInputs: P, yPlus: state.yp, yMinus: state.ym, temperature: state.T }).counts.slice(0, 2).map((n, c, all) => (c ? all[0] + n : n)); // prettier-ignore
  const wordsOf = (codes, phi) =>
    phi === "linear" ? "analog, no groups" : CODES.filter((code) => codes[code]).map((code) => `${codes[code]} neurons ${code === "000" ? "in the bulk" : nameOf(code)}`).join(", "); // prettier-ignore

  /** Where theory has peaks of the readouts' density. */
  function ringsOf(theory, phi, width) {
    if (!theory) return [];
    if (phi === "linear") {
      // axes of the covariance of a₀ and a₁
      const [[x, xy], [, y]] = theory.readoutCovariance,
        half = Math.hypot((x - y) / 2, xy);
      return [{ a: [0, 0], spread: [1, -1].map((sign) => Math.sqrt(Math.max(0, (x + y) / 2 + sign * half))), angle: -Math.atan2(2 * xy, x - y) / 2 }]; // prettier-ignore
    }
    if (laboratory.NONLINEARITIES[phi].bounded) return Object.entries(theory.readouts).filter(([code]) => theory.occupancies[code] * width > 0.05).map(([code, a]) => ({ a, code })); // prettier-ignore
    if (!theory.outliers) return []; // a population has no peaks
    return [
      { a: theory.bulkReadout, code: "000" },
      ...theory.outliers.map(({ readout, preactivations }) => ({ a: readout.map((x) => x * Math.sqrt(width)), code: preactivations.map((z) => (z > 0 ? 1 : 0)).join("") })), // prettier-ignore
    ];
  }

  /** Rows of the table beside the pictures: what, in the sample, in theory. */
  function comparison({ frame, theory, phi }) {
    if (phi === "linear")
      return [0, 1, 2].map((r) => [`spread of a${"₀₁₂"[r]}`, round(Math.sqrt(frame.readouts.reduce((sum, a) => sum + a[r] ** 2 / frame.N, 0)), 2), theory ? round(Math.sqrt(theory.readoutCovariance[r][r]), 2) : "–"]); // prettier-ignore
    const bounded = laboratory.NONLINEARITIES[phi].bounded;
    if (bounded) {
      const share = (code) => (theory ? frame.N * theory.occupancies[code] : 0);
      return CODES.filter((code) => frame.codes[code] || share(code) >= 0.3).map((code) => [nameOf(code), String(frame.codes[code] ?? 0), theory ? round(share(code), 1) : "–", code]); // prettier-ignore
    }
    if (frame.overlap > 0) {
      const ends = [0, ...classEnds(frame), frame.P],
        expected = (of) => (theory ? round(of(theory), 1) : "–");
      return [0, 1, 2].flatMap((c) => [
        [`carry class ${c}`, round(frame.participation[c], 1), expected(({ participation }) => frame.N * participation[c])], // prettier-ignore
        [`kernel in class ${c}`, round(withinOf(frame, ends[c], ends[c + 1]), 1), expected(({ kernel }) => kernel[c][c])], // prettier-ignore
      ]);
    }
    const outliers = frame.N - (frame.codes["000"] ?? 0);
    return [
      ["outliers", String(outliers), theory ? String(theory.outliers.length) : "–"],
      ...[0, 1, 2].map((c) => {
        const strongest = strongestOn(c, frame);
        return [`strongest, class ${c}`, round(frame.means[strongest][c], 1), theory ? round(expectedOn(c, theory, frame), 1) : "–", frame.neuronCodes[strongest]]; // prettier-ignore
      }),
    ];
  }

  const strongestOn = (c, { means }) => means.reduce((best, row, i) => (row[c] > means[best][c] ? i : best), 0);
  const expectedOn = (c, { outliers }, { N }) => Math.sqrt(N) * Math.max(0, ...outliers.map((one) => one.preactivations[c])); // prettier-ignore

  /** Whether outliers at rest are well below those of infinitely many neurons. */
  const weak = ({ frame, theory, busy }) => !busy && theory?.outliers && [0, 1, 2].some((c) => frame.means[strongestOn(c, frame)][c] < 0.85 * expectedOn(c, theory, frame)); // prettier-ignore

  /** The kernel's mean over pairs of different inputs from a stretch of them. */
  function withinOf({ kernel, P }, from, to) {
    let sum = 0;
    for (let m = from; m < to; m++) for (let n = from; n < to; n++) if (m !== n) sum += kernel[m * P + n];
    return sum / Math.max(1, (to - from) * (to - from - 1));
  }

  function compare(stage) {
    const { table, frame, theory, phi } = stage;
    if (!frame || phi !== state.phi[stage.index]) {
      stage.compared = "";
      table.replaceChildren();
      return;
    }
    const row = (cells, head) => {
      const made = document.createElement("tr");
      cells.slice(0, 3).forEach((text, k) => {
        const cell = document.createElement(head || k === 0 ? "th" : "td");
        if (cell.tagName === "TH") cell.scope = head ? "col" : "row";
        if (k === 0 && cells[3]) {
          const mark = document.createElement("span");
          mark.className = "mark";
          mark.style.background = `var(--code-${cells[3]})`;
          cell.append(mark);
        }
        cell.append(text);
        made.append(cell);
      });
      return made;
    };
    const unit = phi === "linear" ? "readouts" : laboratory.NONLINEARITIES[phi].bounded ? "code" : "neurons";
    const head = [unit, "here", theory === undefined ? "theory …" : "theory"],
      body = comparison(stage),
      compared = JSON.stringify([head, body]);
    if (compared === stage.compared) return;
    stage.compared = compared;
    table.replaceChildren(row(head, true), ...body.map((cells) => row(cells, false)));
  }

  // --- controls -----------------------------------------------------------------------------------

  const straight = { toValue: (x) => Number(x.toFixed(4)), toPosition: (v) => v };
  const decades = (digits) => ({ toValue: (x) => Number((10 ** x).toPrecision(digits)), toPosition: Math.log10 });
  const whole = { toValue: Math.round, toPosition: (v) => v };
  const plain = (key) => ({ get: (s) => s[key], set: (s, v) => (s[key] = v) });
  const ratio = (c) => ({ get: (s) => s.r[c], set: (s, v) => (s.r = withRatio(s.r, c, v)), min: 0.05, max: 0.9, step: 0.01, ...straight }); // prettier-ignore
  const CONTROLS = {
    r0: { label: "class 0", name: "Ratio of class 0", ...ratio(0) },
    r1: { label: "class 1", name: "Ratio of class 1", ...ratio(1) },
    r2: { label: "class 2", name: "Ratio of class 2", ...ratio(2) },
    ym: { label: "y₋", name: "Target of the other classes, y minus", ...plain("ym"), min: -1, max: 0.9, step: 0.05, ...straight }, // prettier-ignore
    rho: { label: "overlap ρ", name: "Overlap of inputs within a class, rho", ...plain("rho"), min: 0, max: 0.95, step: 0.05, ...straight }, // prettier-ignore
    P: { label: "inputs P", name: "Number of inputs P", ...plain("P"), min: 12, max: 200, step: 1, ...whole },
    N: { label: "neurons N", name: "Number of neurons N", ...plain("N"), min: 6, max: 200, step: 1, ...whole },
    slope: { label: "slope of φ", name: "Slope of the nonlinearity", ...plain("slope"), min: 0.2, max: 4, step: 0.1, ...straight }, // prettier-ignore
    g: { label: "scaling", name: "Scaling: 0 lazy, 1 non-lazy", ...plain("g"), min: 0, max: 1, step: 0.05, ...straight }, // prettier-ignore
    T: { label: "T", name: "Temperature T", ...plain("T"), min: -3, max: 0, step: 0.02, ...decades(3) },
    time: { label: "transitions", name: "Transitions of a run", ...plain("time"), min: 2, max: 3.3, step: 0.05, toValue: (x) => Math.round(10 ** x), toPosition: Math.log10 }, // prettier-ignore
    seed: { label: "seed", name: "Seed of the random numbers", ...plain("seed"), min: 1, max: 99, step: 1, ...whole }, // prettier-ignore
  };

  /** One ratio set, the other two scaled so that the sum stays one. */
  function withRatio(ratios, index, value) {
    const [a, b] = [0, 1, 2].filter((c) => c !== index),
      next = [];
    next[index] = value;
    next[a] = Number((((1 - value) * ratios[a]) / (ratios[a] + ratios[b])).toFixed(4));
    next[b] = Number((1 - value - next[a]).toFixed(4));
    return next;
  }

  for (const group of root.querySelectorAll("[data-controls]"))
    for (const name of group.dataset.controls.split(" ")) {
      const control = CONTROLS[name],
        row = document.createElement("div"),
        label = document.createElement("span");
      row.className = "control";
      label.textContent = control.label;
      row.append(label);
      for (const type of ["range", "number"]) {
        const input = document.createElement("input");
        input.type = type;
        input.name = name;
        if (type === "range") Object.assign(input, { min: control.min, max: control.max, step: control.step });
        else input.step = "any";
        input.setAttribute("aria-label", type === "range" ? control.name : `${control.name}, as a number`);
        input.addEventListener(type === "range" ? "input" : "change", () => {
          const next = copy(state),
            given = input.value.trim() === "" ? NaN : Number(input.value);
          control.set(next, type === "range" ? control.toValue(given) : given);
          change(next, input);
        });
        row.append(input);
      }
      group.append(row);
    }
  find("method").addEventListener("change", () => change({ ...copy(state), method: find("method").value }));

  function showControls(except) {
    for (const [name, control] of Object.entries(CONTROLS)) {
      const value = control.get(state);
      for (const input of root.querySelectorAll(`input[name="${name}"]`)) {
        if (input !== except) input.value = input.type === "range" ? control.toPosition(value) : value;
        if (input.type === "range") input.setAttribute("aria-valuetext", `${control.name} ${value}`);
        input.removeAttribute("aria-invalid");
      }
    }
    find("method").value = state.method;
    for (const stage of stages) stage.select.value = state.phi[stage.index];
  }

  /** What makes other networks: every setting but T, which running networks follow. */
  const networksOf = (settings) => JSON.stringify({ ...settings, T: 0 });
  const markStale = ({ place, networks }) => place.classList.toggle("stale", networks !== networksOf(state));

  /** A change asked for: refused with a sentence where it is not allowed. A running network follows T alone. */
  function change(next, source) {
    try {
      for (const phi of next.phi) laboratory.checked(optionsOf(next, phi));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (source?.type === "number") source.setAttribute("aria-invalid", "true");
      else showControls();
      find("refusal").textContent = `${error.message.replace("got NaN", "got no number")}. The last allowed setting stays.`;
      return false;
    }
    find("refusal").textContent = "";
    const onlyT = networksOf(next) === networksOf(state) && next.T !== state.T;
    state = next;
    showControls(source);
    writeHash();
    if (onlyT && stages.every((stage) => stage.frame && !stage.failed && stage.networks === networksOf(state))) walk(state.T, 100, 100);
    else if (!onlyT) stages.forEach(markStale);
    return true;
  }

  function say(text) {
    const status = find("status");
    if (status.textContent !== text) status.textContent = text;
  }

  // --- the address --------------------------------------------------------------------------------

  const hashOf = (s) => `#${Object.keys(START).map((key) => `${key}=${s[key]}`).join("&")}`; // prettier-ignore

  function fromHash(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, "")),
      found = copy(START);
    if (![...given.keys()].some((key) => key in START)) return null;
    for (const [key, initial] of Object.entries(START)) {
      const text = given.get(key);
      if (text === null) continue;
      if (key === "phi") found.phi = START.phi.map((phi, k) => text.split(",")[k] ?? phi);
      else if (key === "r") found.r = text.split(",").map(Number);
      else found[key] = typeof initial === "number" ? Number(text) : text;
    }
    return found;
  }

  let writing = 0;
  function writeHash() {
    clearTimeout(writing);
    writing = setTimeout(() => history.replaceState(null, "", hashOf(state)), 250);
  }

  // --- running ------------------------------------------------------------------------------------

  /** Frames of a run; milliseconds from one to the next at least, and of sampling between them at most: with what a frame
      itself takes an eye has thirty a second. */
  function pace() {
    if (still.matches) return { frames: 5, wait: 0, most: Infinity };
    return find("fast").checked ? { frames: 40, wait: 0, most: 60 } : { frames: FRAMES, wait: 24, most: 4 };
  }

  /** Networks are drawn from the prior and cooled, or put at T at once. */
  function start(what) {
    root.classList.remove("failed");
    kind = what;
    paused = false;
    for (const stage of stages) {
      const phi = state.phi[stage.index],
        options = optionsOf(state, phi),
        send = engineOf(stage);
      runs++;
      Object.assign(stage, { run: runs, phi, networks: networksOf(state), frame: null, theory: undefined, trace: [], busy: true, failed: null, before: null, chosen: null }); // prettier-ignore
      send({ type: "start", run: runs, pace: pace(), options: { ...options, startTemperature: what === "cool" ? Math.max(HOT, state.T) : state.T } }); // prettier-ignore
      askTheory(stage, options);
    }
    say(what === "cool" ? `Three networks are drawn at T = ${Math.max(HOT, state.T)} and cool to ${state.T}.` : `Three networks are drawn from the prior and put at T = ${state.T} at once.`); // prettier-ignore
    showButtons();
  }

  /** The present networks go to another temperature. */
  function walk(to, count, hold) {
    kind = to > (stages[0].frame?.temperature ?? to) ? "heat" : "walk";
    paused = false;
    for (const stage of stages) {
      stage.busy = true;
      runs++;
      stage.run = runs; // frames of what was under way are late
      askTheory(stage, { ...optionsOf(state, stage.phi), temperature: to });
      stage.send({ type: "walk", run: runs, to, count, hold, pace: pace() });
    }
    say(`The networks go to T = ${significant(to)}.`);
    showButtons();
  }

  function ended() {
    if (stages.some(({ busy }) => busy)) return;
    requestAnimationFrame(() => {
      const failures = new Set(stages.flatMap(({ failed }) => failed ?? []));
      if (failures.size) {
        say([...failures].join(" "));
        return;
      }
      const answer = trial?.answer?.() ?? "";
      find("answer").textContent = answer;
      say(answer ? "Done." : `Done. ${stages.map(({ summary }) => summary).join("; ")}.`); // one of them at a time is enough to read
    });
  }

  function swapped(stage) {
    const { before, frame } = stage;
    if (!before) return;
    const moved = Math.max(...frame.outputs.map((row, m) => Math.max(...row.map((f, r) => Math.abs(f - before.outputs[m][r]))))); // prettier-ignore
    stage.moved = { outputs: moved, energy: Math.abs(frame.energy - before.energy) / before.energy };
    if (stages.every((one) => one.moved))
      say(`Two neurons of each network exchanged all their weights. No output moved by more than ${Math.max(...stages.map((one) => one.moved.outputs)).toExponential(0)}, and the energy is the same: neurons have no names. Where they hold different codes, the dynamics of a cold network hardly ever makes this step: every way there leads over a barrier.`); // prettier-ignore
  }

  /** A pair whose codes differ, the first of the largest two groups; else the first two. */
  function pairOf({ neuronCodes }) {
    const other = neuronCodes.findIndex((code) => code !== neuronCodes[0]);
    return [0, other > 0 ? other : 1];
  }

  const running = () => stages.some(({ busy }) => busy);
  function showButtons() {
    const there = stages.every(({ frame, failed }) => frame && !failed),
      pause = find("pause");
    const next = paused ? "Go on" : "Pause";
    if (pause.textContent !== next) pause.textContent = next; // written, even the same text is laid out anew
    pause.disabled = !running() && !paused;
    for (const name of ["step", "swap"]) find(name).disabled = !there || (running() && !paused);
    find("heat").disabled = !there;
    find("csv").disabled = !stages.every(({ frame }) => frame);
    root.dataset.running = String(running() && !paused);
  }

  const toAll = (message) => {
    for (const stage of stages) stage.send?.(message);
  };
  const press = (name, action) => find(name).addEventListener("click", action);
  /** An experiment, with room for its answer, so that nothing moves when that comes, and on a phone its network first; or none. */
  function setTrial(next) {
    trial = next;
    root.classList.toggle("tried", trial !== null);
    for (const { place, index } of stages) place.classList.toggle("first", START.phi[index] === trial?.about);
  }
  const alone = (what) => () => {
    setTrial(null);
    find("answer").textContent = "";
    start(what);
  };
  press("cool", alone("cool"));
  press("quench", alone("quench"));
  press("heat", () => walk(HOT, 300, 0));
  press("pause", () => {
    paused = !paused;
    toAll({ type: paused ? "pause" : "resume" });
    if (!paused) for (const stage of stages) stage.busy = stage.frame.done < stage.frame.count;
    say(paused ? `Paused. ${stages.map(({ summary }) => summary).join("; ")}.` : "Going on.");
    showButtons();
  });
  press("step", () => toAll({ type: "step" }));
  press("swap", () => {
    for (const stage of stages) {
      stage.before = stage.frame;
      stage.moved = null;
      stage.send({ type: "swap", pair: pairOf(stage.frame) });
    }
  });
  press("reset", () => {
    setTrial(null);
    find("answer").textContent = "";
    change(copy(START));
  });
  press("link", async () => {
    try {
      await navigator.clipboard.writeText(location.href.replace(/#.*$/, "") + hashOf(state));
      say("Link copied.");
    } catch {
      history.replaceState(null, "", hashOf(state));
      say("The browser allows no copying here; the address line holds the link.");
    }
  });
  press("csv", () => {
    const lines = [
      `# one hidden layer; ${hashOf(state).slice(1).replaceAll("&", "; ")}; transition ${stages[0].frame.transitions}, T ${stages[0].frame.temperature}`,
      "nonlinearity,neuron,code,a_0,a_1,a_2,phi_class_0,phi_class_1,phi_class_2",
    ];
    for (const { frame, phi } of stages)
      frame.readouts.forEach((a, i) => lines.push([phi, i, frame.neuronCodes[i], ...a, ...frame.means[i]].join(","))); // prettier-ignore
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "networks.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  // --- guided experiments -------------------------------------------------------------------------

  const by = (phi) => stages.find((stage) => stage.phi === phi);
  const count = (stage, code) => stage.frame.codes[code] ?? 0;
  const EXPERIMENTS = {
    kernel: {
      state: { ym: 0.1 },
      answer() {
        const [a, b, c] = stages.map(({ frame }) => frame.kernel);
        return `The kernels, centered, agree: cosines ${[[a, b], [b, c], [a, c]].map((pair) => laboratory.alignment(...pair)).map((x) => round(x, 2)).join(", ")}. The neurons do not: all of the linear ones answer by degrees, the sigmoidal ones form groups, and ${stages[2].frame.N - count(stages[2], "000")} ReLU neurons carry the task.`; // prettier-ignore
      },
    },
    heat: {
      about: "sigmoidal",
      state: { ym: 0.5 },
      then: () => walk(0.3, 900, 0),
      answer() {
        const stage = by("sigmoidal"),
          critical = stage.theory?.critical;
        if (kind !== "heat") return "The groups stand. Now heat, and watch the sigmoidal network's strip of colors.";
        return `Groups were last seen at T = ${significant(stage.frame.lastDivided)}.${critical ? ` Theory, for infinitely many neurons, has one code left above T = ${significant(critical)}.` : ""}`; // prettier-ignore
      },
    },
    quench: {
      about: "sigmoidal",
      state: { ym: 0.1, T: 0.001 },
      begin: "quench",
      then: () => start("cool"),
      answer() {
        const stage = by("sigmoidal"),
          expected = stage.theory ? ` Theory expects ${round(stage.theory.occupancies["100"] * stage.frame.N, 1)}.` : ""; // prettier-ignore
        return `${count(stage, "100")} sigmoidal neurons took the code 1-0-0 ${kind === "cool" ? "on slow cooling" : "in the quench"}.${expected} Once taken, a code is frozen.`; // prettier-ignore
      },
    },
    overlap: {
      about: "relu",
      state: { ym: -0.5 },
      then: () => {
        change({ ...copy(state), rho: 0.5 });
        start("cool");
      },
      answer() {
        const carried = by("relu").frame.participation.map((x) => round(x, 1)).join(", "); // prettier-ignore
        return `With ρ = ${state.rho} a class is carried by ${carried} ReLU neurons. ${state.rho ? "Inputs that are alike need no outlier that answers to each of them alone: the code is shared out, and the more neurons there are, the more share it. (The sigmoidal network froze early on its way down, far from theory's numbers.)" : "One neuron for each class: sparse. Now raise ρ."}`; // prettier-ignore
      },
    },
    small: {
      about: "sigmoidal",
      state: { ym: 0.3, T: 0.02 }, // where cooled networks are in equilibrium
      then: () => {
        change({ ...copy(state), N: 15 });
        start("cool");
      },
      answer() {
        const stage = by("sigmoidal"),
          worst = stage.theory && Math.max(...CODES.map((code) => Math.abs(count(stage, code) - stage.frame.N * stage.theory.occupancies[code]))); // prettier-ignore
        if (!stage.theory) return `N = ${stage.frame.N}: no theory to compare with${stage.none ? `, since ${stage.none}` : " yet"}.`;
        return `N = ${stage.frame.N}: the largest difference from theory's number of neurons is ${round(worst, 1)}. Were neurons to choose alone, chance would make it ${round(Math.sqrt(stage.frame.N * 0.3 * 0.7), 1)}.`; // prettier-ignore
      },
    },
    lazy: {
      state: { ym: 0.1, g: 0 },
      then: () => {
        change({ ...copy(state), g: 1 });
        start("cool");
      },
      answer() {
        const along = stages.map(({ frame }) => round(frame.alongClasses, 2)).join(", ");
        return `Scaling ${state.g}: the centered kernels lie along the targets with cosines ${along}. ${state.g ? "Features have learned the classes." : "The outputs fit all the same; features have hardly changed, the readouts did the work."}`; // prettier-ignore
      },
    },
  };
  /** Scrolls to the networks where they are out of sight. */
  function showStages() {
    if (root.querySelector(".stages").getBoundingClientRect().top > 0.6 * window.innerHeight) find("networks").scrollIntoView({ behavior: still.matches ? "auto" : "smooth" }); // prettier-ignore
  }

  for (const button of root.querySelectorAll("[data-experiment]")) {
    const experiment = EXPERIMENTS[button.dataset.experiment];
    button.addEventListener("click", () => {
      find("answer").textContent = "";
      if (button.dataset.go === "then") {
        if (trial !== experiment || running()) {
          say("First the button before this one, to its end.");
          return;
        }
        experiment.then();
        showStages();
        return;
      }
      setTrial(experiment);
      showStages();
      if (change({ ...copy(START), ...experiment.state })) start(experiment.begin ?? "cool");
    });
  }

  // --- start --------------------------------------------------------------------------------------

  window.addEventListener("hashchange", () => {
    const given = fromHash(location.hash);
    if (given) change(given);
  });
  let drawnWidth = 0;
  new ResizeObserver(() => {
    if (root.clientWidth === drawnWidth) return;
    drawnWidth = root.clientWidth;
    measure();
    draw(...stages);
  }).observe(root);
  new MutationObserver(() => {
    colors.clear();
    draw(...stages);
  }).observe(document.documentElement, { attributeFilter: ["data-theme"] }); // prettier-ignore

  root.hidden = false;
  showControls();
  showButtons();
  const given = fromHash(location.hash);
  if (given) change(given);
  else if (location.hash === "#watch") {
    // the first page's button was pressed
    history.replaceState(null, "", hashOf(state));
    find("networks").scrollIntoView();
    start("cool");
  }
})();
