/* The explorer's page: controls, figures drawn as SVG by hand, and two workers that run createSolver of explorer.js.
   The first answers the controls, the second draws the rest: phase diagram, transitions, ReLU network. Nothing is
   fetched, so that the page also works from a local file: explorer-samples.js, made by redundant.explorer_samples,
   holds the presets' tasks and what networks sampled at them are like. */

(function () {
  "use strict";

  const root = document.getElementById("explorer");
  if (!root) return;
  const find = (name) => root.querySelector(`[data-part="${name}"]`);
  const CODES = ["110", "101", "011", "111", "100", "010", "001", "000"]; // in the order shown
  const nameOf = (code) => [...code].join("-");
  const PRESETS = EXPLORER_SAMPLES.presets;
  const TASK = ({ state: task }) => ({ ...task, rho: 0 }); // of a preset
  const START = TASK(PRESETS.redundant);
  const ALIKE = 0.9; // largest overlap offered
  const MAP = EXPLORER_MAP; // the phase diagram's places, and its columns for the buttons' ratios and P
  const MOST = 6; // effective codes of its brightest color, whatever is solved already

  let state = structuredClone(START),
    shown = null; // what the controls say; what was last solved and drawn
  const optionsOf = ({ r, yp, ym, rho, T, P }) => ({
    overlap: rho,
    ratios: r,
    yPlus: yp,
    yMinus: ym,
    temperature: T,
    numInputs: P,
  });

  // --- numbers as text ----------------------------------------------------------------------------

  const signed = (text) => text.replace("-", "−");
  const round = (x, digits) => signed(x.toFixed(digits));
  const significant = (x) => signed(String(Number(x.toPrecision(3))));
  const percent = (p) =>
    p < 0.0005 ? "0 %" : p < 0.1 ? `${(100 * p).toFixed(1)} %` : `${Math.round(100 * p)} %`;

  // --- controls -----------------------------------------------------------------------------------

  // A slider's position and the value it stands for; T and P move in decades
  const straight = { toValue: (x) => Number(x.toFixed(4)), toPosition: (v) => v };
  const CONTROLS = {
    r0: {
      get: (s) => s.r[0],
      set: (s, v) => {
        s.r = withRatio(s.r, 0, v);
      },
      ...straight,
      text: (v) => `${round(v, 3)} of the inputs in class 0`,
    },
    r1: {
      get: (s) => s.r[1],
      set: (s, v) => {
        s.r = withRatio(s.r, 1, v);
      },
      ...straight,
      text: (v) => `${round(v, 3)} of the inputs in class 1`,
    },
    r2: {
      get: (s) => s.r[2],
      set: (s, v) => {
        s.r = withRatio(s.r, 2, v);
      },
      ...straight,
      text: (v) => `${round(v, 3)} of the inputs in class 2`,
    },
    ym: {
      get: (s) => s.ym,
      set: (s, v) => {
        s.ym = v;
      },
      ...straight,
      text: (v) => `target ${round(v, 2)}`,
    },
    yp: {
      get: (s) => s.yp,
      set: (s, v) => {
        s.yp = v;
      },
      ...straight,
      text: (v) => `target ${round(v, 2)}`,
    },
    rho: {
      get: (s) => s.rho,
      set: (s, v) => {
        s.rho = v;
      },
      ...straight,
      text: (v) => `inputs of a class overlap by ${round(v, 2)}`,
    },
    T: {
      get: (s) => s.T,
      set: (s, v) => {
        s.T = v;
      },
      toValue: (x) => Number((10 ** x).toPrecision(3)),
      toPosition: Math.log10,
      text: (v) => `temperature ${significant(v)}`,
    },
    P: {
      get: (s) => s.P,
      set: (s, v) => {
        s.P = v;
      },
      toValue: (x) => Math.round(10 ** x),
      toPosition: Math.log10,
      text: (v) => `${v} inputs`,
    },
  };

  /** One ratio set, the other two scaled so that the sum stays one; three digits each. */
  function withRatio(ratios, index, value) {
    const others = [0, 1, 2].filter((c) => c !== index),
      rest = others.reduce((sum, c) => sum + ratios[c], 0);
    const next = [];
    next[index] = value;
    next[others[0]] = Number(((1 - value) * (rest > 0 ? ratios[others[0]] / rest : 0.5)).toFixed(4));
    next[others[1]] = Number((1 - value - next[others[0]]).toFixed(4));
    return next;
  }

  function showControls(except) {
    for (const [name, control] of Object.entries(CONTROLS)) {
      const slider = root.querySelector(`input[type="range"][name="${name}"]`),
        field = root.querySelector(`input[type="number"][name="${name}"]`);
      const value = control.get(state);
      if (slider !== except) slider.value = control.toPosition(value);
      slider.setAttribute("aria-valuetext", control.text(value));
      if (field !== except) field.value = value;
      field.removeAttribute("aria-invalid");
    }
    for (const button of root.querySelectorAll("[data-preset]"))
      button.setAttribute(
        "aria-pressed",
        String(sampledAt(state) === PRESETS[button.dataset.preset]),
      );
  }

  /** The preset of just this task, with what networks sampled at it are like. */
  const sampledAt = (s) => Object.values(PRESETS).find((one) => JSON.stringify(TASK(one)) === JSON.stringify(s));

  /** A change asked for: refused with a sentence where the task is not allowed, and the last good state stays. */
  function change(next, source) {
    try {
      if (!(next.rho >= 0 && next.rho <= ALIKE))
        throw new RangeError(`Overlap ρ: got ${next.rho}; allowed are numbers from 0 to ${ALIKE}`);
      checker.makeTask(optionsOf(next));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (source?.type === "number") source.setAttribute("aria-invalid", "true");
      else showControls();
      find("refusal").textContent = `${error.message}. The last allowed task stays.`;
      return;
    }
    find("refusal").textContent = "";
    state = next;
    showControls(source);
    ask();
  }

  function say(text) {
    const status = find("status");
    if (status.textContent !== text) status.textContent = text;
  }

  // --- the address: #r=0.5,0.25,0.25&yp=1&ym=0.5&T=0.01&P=500 -------------------------------------

  const hashOf = (s) => `#r=${s.r.join(",")}&yp=${s.yp}&ym=${s.ym}&T=${s.T}&P=${s.P}${s.rho ? `&rho=${s.rho}` : ""}`;

  function fromHash(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    if (![...given.keys()].some((key) => ["r", "yp", "ym", "T", "P", "rho"].includes(key))) return null;
    const number = (key) => (given.has(key) ? Number(given.get(key)) : START[key]);
    const r = given.has("r") ? given.get("r").split(",").map(Number) : START.r;
    return { r, yp: number("yp"), ym: number("ym"), T: number("T"), P: number("P"), rho: number("rho") };
  }

  let writing = 0;
  function writeHash() {
    clearTimeout(writing);
    writing = setTimeout(() => history.replaceState(null, "", hashOf(state)), 250);
  }

  // --- workers ------------------------------------------------------------------------------------

  const checker = createSolver();

  /** Runs jobs {name, arguments} one after another in a worker; where there is none, here, between two frames. */
  function makeRunner(answer) {
    const body = `const solver = (${createSolver})();
      onmessage = ({ data }) => {
        let result = null, failure = null;
        try { result = solver[data.name](...data.arguments); } catch (error) { failure = error.message; }
        postMessage({ ...data, arguments: null, result, failure });
      };`;
    try {
      const worker = new Worker(URL.createObjectURL(new Blob([body], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => answer(data);
      worker.onerror = (event) => answer({ result: null, failure: event.message || "the worker stopped" });
      return (job) => worker.postMessage(job);
    } catch {
      return (job) =>
        setTimeout(() => {
          let result = null,
            failure = null;
          try {
            result = checker[job.name](...job.arguments);
          } catch (error) {
            failure = error.message;
          }
          answer({ ...job, result, failure });
        });
    }
  }

  const front = makeRunner(received);
  let busy = false,
    waiting = false,
    last = null;

  /** Asks for the present state's solution; while one is under way, only the newest wish is kept. */
  function ask() {
    root.dataset.asked = hashOf(state); // for tests and for whoever embeds the page
    if (busy) {
      waiting = true;
      return;
    }
    busy = true;
    front({
      name: "solve",
      arguments: [{ ...optionsOf(state), start: last }],
      state: structuredClone(state),
    });
  }

  function received({ state: of, result, failure }) {
    busy = false;
    const good = result?.converged;
    if (good) last = { field: result.field };
    else last = null;
    if (waiting) {
      waiting = false;
      ask();
    }
    shown = good ? { ...result, state: of } : null;
    root.classList.toggle("failed", !good);
    root.dataset.answered = hashOf(of);
    if (!good) {
      const reason = failure ?? `residual ${significant(result.residual)} after ${result.numSteps} steps`;
      say(`The solve did not converge (${reason}). Nothing is drawn: try a neighboring task.`);
    }
    drawSolution();
    writeHash();
    if (!busy) askAround();
  }

  // --- behind: what may take a second ------------------------------------------------------------

  const back = makeRunner(returned);
  let jobs = [],
    underWay = false,
    around = {},
    mapOf = "",
    map = null,
    quiet = 0;

  /** Once the sliders rest: linear and ReLU networks, transitions, and the phase diagram where it changed. */
  function askAround() {
    around = { state: JSON.stringify(state) };
    if (shown) around.linear = checker.solveLinear(optionsOf(state));
    jobs = jobs.filter((job) => job.kind === "map" && job.of === mapKey());
    drawSchemes();
    drawTransitions();
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      const options = optionsOf(state),
        solution = shown && { field: shown.field, numCodes: shown.numCodes },
        of = around.state;
      jobs.unshift({ kind: "relu", of, name: state.rho ? "solvePopulation" : "solveRelu", arguments: [options] });
      if (solution)
        jobs.splice(
          1,
          0,
          ...[
            ["hotter", "temperature", 0.2, 1],
            ["colder", "temperature", -0.4, 1e-4],
            ["higher", "yMinus", 0.05, 0.95],
            ["lower", "yMinus", -0.05, -1],
          ].map(([kind, name, step, end]) => ({
            kind,
            of,
            name: "transition",
            arguments: [options, solution, name, step, end],
          })),
        );
      if (mapKey() !== mapOf) {
        mapOf = mapKey();
        showStored();
        jobs = jobs.filter(({ kind }) => kind !== "map");
        const nearest = [...MAP.targets.keys()].sort(
          (i, j) => Math.abs(MAP.targets[i] - state.ym) - Math.abs(MAP.targets[j] - state.ym),
        );
        for (const k of nearest)
          if (Math.abs(MAP.targets[k] - state.yp) > 1e-9 && map !== MAP.columns)
            jobs.push({
              kind: "map",
              of: mapOf,
              k,
              name: "column",
              arguments: [{ ...options, yMinus: MAP.targets[k] }, MAP.temperatures],
            });
      }
      startNext();
    }, 150);
  }

  const mapKey = ({ r, yp, P, rho } = state) => JSON.stringify(rho ? [r, yp, P, rho] : [r, yp, P]);

  /** What is there at once: the stored columns or, until each is solved, the last ones, pale. */
  function showStored() {
    if (mapKey() === MAP.of) map = MAP.columns;
    else
      map = (map ?? MAP.columns).map((found, k) =>
        found && Math.abs(MAP.targets[k] - state.yp) > 1e-9 ? { ...found, stale: true } : null,
      ); // prettier-ignore
    drawMap();
  }

  function startNext() {
    if (underWay || !jobs.length) return;
    underWay = true;
    back(jobs.shift());
  }

  function returned({ kind, of, k, result, failure }) {
    underWay = false;
    if (kind === "map") {
      if (of === mapOf && result) {
        map[k] = result;
        drawMap();
      }
    } else if (of === around.state) {
      around[kind] = failure && kind === "relu" ? { converged: false, failure } : result;
      if (kind === "relu") drawSchemes();
      else drawTransitions();
    }
    startNext();
  }

  // --- drawing ------------------------------------------------------------------------------------

  function element(name, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** An empty picture as wide as its place, in pixels, so that text keeps its size on a phone. */
  function canvas(part, height, label) {
    const place = find(part),
      width = Math.max(260, place.clientWidth);
    const svg = element("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
    });
    place.replaceChildren(svg);
    return {
      svg,
      width,
      add: (...rest) => {
        const made = element(...rest);
        svg.append(made);
        return made;
      },
    };
  }

  const VIRIDIS = [
    [68, 1, 84],
    [59, 82, 139],
    [33, 145, 140],
    [94, 201, 98],
    [253, 231, 37],
  ];
  const BLUES = [
    [247, 251, 255],
    [198, 219, 239],
    [107, 174, 214],
    [33, 113, 181],
    [8, 48, 107],
  ];
  // positive is blue
  const REDS_BLUES = [
    [178, 24, 43],
    [244, 165, 130],
    [247, 247, 247],
    [146, 197, 222],
    [33, 102, 172],
  ];

  function shade(colors, x) {
    const u = Math.min(Math.max(x, 0), 1) * (colors.length - 1),
      k = Math.min(Math.floor(u), colors.length - 2);
    return colors[k].map((from, i) => Math.round(from + (u - k) * (colors[k + 1][i] - from)));
  }
  const css = (color) => `rgb(${color.join(",")})`;
  const ink = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff");

  function drawSolution() {
    for (const part of ["bars", "density", "activations"]) find(part).replaceChildren();
    find("table").replaceChildren();
    find("csv").disabled = !shown;
    for (const part of ["number", "effective", "error", "time"]) find(part).textContent = "–";
    if (!shown) return;
    const used = CODES.filter((code) => shown.occupancies[code] >= 0.01); // in a fixed order: rows that jump are hard to follow
    const list = [...used]
      .sort((a, b) => shown.occupancies[b] - shown.occupancies[a])
      .map((code) => `${nameOf(code)} ${percent(shown.occupancies[code])}`)
      .join(", ");
    say(used.length > 1 ? `${used.length} codes coexist: ${list}.` : `One code only: ${list}.`);
    find("number").textContent = used.length > 1 ? `${used.length} coexist` : "one only";
    find("effective").textContent = round(shown.effectiveCodes, 2);
    find("error").textContent = significant(shown.trainingError);
    find("time").textContent = `${Math.max(1, Math.round(shown.milliseconds))} ms`;
    const sampled = sampledAt(shown.state);
    drawBars(sampled);
    drawDensities(sampled);
    describeSamples(sampled);
    drawActivations(used);
    drawTable();
    drawCross();
  }

  /** A sampled number with its standard error. */
  function dot(add, x, y, [dx, dy], attributes) {
    add("line", { x1: x - dx, x2: x + dx, y1: y - dy, y2: y + dy, ...attributes, class: `${attributes.class} error` });
    add("circle", { cx: x, cy: y, ...attributes });
  }

  function describeSamples(sampled) {
    const ends = sampled?.agree ? "" : " Networks from two starts did not meet: their equilibrium is not shown.";
    find("samples").textContent = sampled
      ? `Lines and bars: theory, N → ∞. Dots: ${sampled.networks} networks of N = ${sampled.width} neurons sampled at this task, with standard errors.${ends}`
      : "Lines and bars: theory, N → ∞. At the tasks of the buttons above, dots show networks that were sampled.";
  }

  function drawBars(sampled) {
    const row = 25,
      { width, add } = canvas("bars", CODES.length * row, "Fraction of the neurons with each code");
    CODES.forEach((code, k) => {
      const p = shown.occupancies[code],
        length = p * (width - 110);
      add("text", { x: 0, y: k * row + 17, class: "code" }, nameOf(code));
      add("rect", {
        x: 46,
        y: k * row + 3,
        width: Math.max(length, 1),
        height: row - 7,
        rx: 2,
        fill: `var(--code-${code})`,
        "data-code": code,
      });
      const [share, error] = sampled?.shares[code] ?? (sampled ? [0, 0] : [p, 0]);
      const at = (q) => 46 + q * (width - 110);
      if (sampled) dot(add, at(share), k * row + 12, [at(error) - at(0), 0], { r: 3.5, class: "sample" });
      add("text", { x: at(Math.max(p, share)) + 9, y: k * row + 17 }, percent(p));
    });
  }

  function drawDensities(sampled) {
    const height = 225,
      { width, add } = canvas("density", height, "Densities of the readout weights, one line per output");
    const left = 34,
      right = 8,
      top = 24,
      bottom = 36;
    const ends = shown.densities.map(({ start, step, values }) => {
      // where it is above a thousandth of its peak
      const seen = Math.max(...values) / 1000,
        first = values.findIndex((f) => f > seen),
        final = values.findLastIndex((f) => f > seen);
      return [start + step * first, start + step * final];
    });
    const low = Math.floor(2 * Math.min(...ends.map((e) => e[0]))) / 2,
      high = Math.ceil(2 * Math.max(...ends.map((e) => e[1]))) / 2;
    const count = Math.max(200, Math.round(width - left - right)),
      grid = Array.from({ length: count + 1 }, (_, i) => low + (i * (high - low)) / count);
    const curves = shown.densities.map((density) => grid.map((a) => checker.densityAt(density, a)));
    const highest = sampled?.readouts.flatMap(({ density }) => density) ?? [];
    const peak = 1.05 * Math.max(...curves.flat(), ...highest);
    const x = (a) => left + ((a - low) / (high - low)) * (width - left - right),
      y = (f) => height - bottom - (f / peak) * (height - top - bottom);
    axis(add, {
      from: left,
      to: width - right,
      at: height - bottom,
      low,
      high,
      count: 6,
      scale: x,
      label: "readout weight a",
    });
    for (const tick of ticks(0, peak, 3)) {
      add("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" });
      add("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, significant(tick));
    }
    curves.forEach((curve, r) => {
      const d = curve.map((f, i) => `${i ? "L" : "M"}${x(grid[i]).toFixed(1)},${y(f).toFixed(1)}`).join("");
      add("path", { d, class: `output output-${r}` });
      add("line", {
        x1: left + 4 + 84 * r,
        x2: left + 26 + 84 * r,
        y1: 10,
        y2: 10,
        class: `output output-${r}`,
      });
      add("text", { x: left + 31 + 84 * r, y: 14 }, `output ${r}`);
    });
    sampled?.readouts.forEach(({ at, density, error }, r) =>
      at.forEach((a, k) => {
        if (a < low || a > high) return;
        const attributes = { r: 1.8, class: `sample output-${r}` };
        dot(add, x(a), y(density[k]), [0, y(0) - y(error[k])], attributes);
      }),
    );
  }

  function ticks(low, high, count) {
    const raw = (high - low) / count,
      power = 10 ** Math.floor(Math.log10(raw)),
      step = power * [1, 2, 5, 10].find((k) => k * power >= raw);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++)
      found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function axis(add, { from, to, at, low, high, count, scale, label }) {
    add("line", { x1: from, x2: to, y1: at, y2: at, class: "axis" });
    for (const tick of ticks(low, high, count)) {
      add("line", { x1: scale(tick), x2: scale(tick), y1: at, y2: at + 4, class: "axis" });
      add("text", { x: scale(tick), y: at + 16, "text-anchor": "middle" }, significant(tick));
    }
    add("text", { x: (from + to) / 2, y: at + 32, "text-anchor": "middle", class: "label" }, label);
  }

  function drawActivations(used) {
    const row = 30,
      { width, add } = canvas(
        "activations",
        used.length * row + 22,
        "Mean activation of the neurons of each code on each class",
      );
    const left = 46,
      cell = (width - left) / 3;
    [0, 1, 2].forEach((c) =>
      add("text", { x: left + (c + 0.5) * cell, y: 13, "text-anchor": "middle" }, `class ${c}`),
    );
    used.forEach((code, k) => {
      const y = 22 + k * row;
      add("text", { x: 0, y: y + 19, class: "code" }, nameOf(code));
      shown.activations[code].forEach((value, c) => {
        const color = shade(BLUES, value);
        add("rect", { x: left + c * cell + 1, y: y + 1, width: cell - 2, height: row - 2, fill: css(color) });
        add(
          "text",
          { x: left + (c + 0.5) * cell, y: y + 19, "text-anchor": "middle", style: `fill: ${ink(color)}` },
          value.toFixed(3),
        );
      });
    });
  }

  const HEADINGS = [
    "code",
    "share",
    "⟨φ⟩ class 0",
    "⟨φ⟩ class 1",
    "⟨φ⟩ class 2",
    "a output 0",
    "a output 1",
    "a output 2",
    "share, sampled",
    "its error",
  ];
  const tableRows = () =>
    CODES.map((code) => {
      const sampled = sampledAt(shown.state);
      const cells = [
        ...(shown.activations[code] ?? [NaN, NaN, NaN]),
        ...(shown.readouts[code] ?? [NaN, NaN, NaN]),
        ...(sampled ? (sampled.shares[code] ?? [0, 0]) : [NaN, NaN]),
      ];
      return [nameOf(code), shown.occupancies[code], ...cells];
    });

  function drawTable() {
    const line = (cells, tag) => {
      const row = document.createElement("tr");
      cells.forEach((text, k) => {
        const cell = document.createElement(k === 0 ? "th" : tag);
        cell.scope = tag === "th" ? "col" : "row";
        if (cell.tagName === "TD") cell.removeAttribute("scope");
        cell.textContent = text;
        row.append(cell);
      });
      return row;
    };
    const head = document.createElement("thead"),
      body = document.createElement("tbody");
    head.append(line(HEADINGS, "th"));
    body.append(
      ...tableRows().map(([name, ...values]) =>
        line([name, ...values.map((v) => (Number.isNaN(v) ? "–" : round(v, 4)))], "td"),
      ),
    );
    const caption = document.createElement("caption");
    caption.textContent = "Codes of the sigmoidal network: share of the neurons, mean activations, readouts";
    find("table").replaceChildren(caption, head, body);
  }

  // --- the phase diagram --------------------------------------------------------------------------

  const place = { left: 52, right: 8, top: 8, bottom: 40, height: 290 };
  const halfY = (MAP.targets[1] - MAP.targets[0]) / 2,
    halfT = Math.log10(MAP.temperatures[1] / MAP.temperatures[0]) / 2;
  const bounds = {
    low: MAP.targets[0] - halfY,
    high: MAP.targets.at(-1) + halfY,
    cold: Math.log10(MAP.temperatures[0]) - halfT,
    hot: Math.log10(MAP.temperatures.at(-1)) + halfT,
  };
  let mapWidth = 0;
  const mapX = (y) =>
    place.left + ((y - bounds.low) / (bounds.high - bounds.low)) * (mapWidth - place.left - place.right);
  const mapY = (logT) =>
    place.top +
    ((bounds.hot - logT) / (bounds.hot - bounds.cold)) * (place.height - place.top - place.bottom);

  function drawMap() {
    if (!map) return;
    const { svg, width, add } = canvas(
      "map",
      place.height,
      "Phase diagram: effective number of codes over y₋ and T, a cross where you are",
    );
    mapWidth = width;
    map.forEach((found, k) =>
      found?.effectiveCodes.forEach((value, j) => {
        if (!Number.isFinite(value)) return;
        const logT = Math.log10(MAP.temperatures[j]),
          y = mapY(logT + halfT),
          x = mapX(MAP.targets[k] - halfY);
        add("rect", {
          x,
          y,
          width: mapX(MAP.targets[k] + halfY) - x + 0.5,
          height: mapY(logT - halfT) - y + 0.5,
          "shape-rendering": "crispEdges",
          fill: css(shade(VIRIDIS, (value - 1) / (MOST - 1))),
          "fill-opacity": found.stale ? 0.35 : 1,
        });
      }),
    );
    const boundary = map.map((found, k) =>
      found?.critical && !found.stale ? [mapX(MAP.targets[k]), mapY(Math.log10(found.critical))] : null,
    );
    const path = boundary
      .map((point, k) =>
        point ? `${boundary[k - 1] ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}` : "",
      )
      .join("");
    add("path", { d: path, class: "critical" });
    for (const tick of [-1, -0.5, 0, 0.5])
      add(
        "text",
        { x: mapX(tick), y: place.height - place.bottom + 15, "text-anchor": "middle" },
        signed(String(tick)),
      );
    for (const [logT, text] of [
      [-3, "0.001"],
      [-2, "0.01"],
      [-1, "0.1"],
      [0, "1"],
    ])
      add("text", { x: place.left - 5, y: mapY(logT) + 4, "text-anchor": "end" }, text);
    add(
      "text",
      {
        x: (place.left + width - place.right) / 2,
        y: place.height - 6,
        "text-anchor": "middle",
        class: "label",
      },
      "target of the other classes y₋",
    );
    add(
      "text",
      { transform: `translate(11,${mapY(-1.5)}) rotate(-90)`, "text-anchor": "middle", class: "label" },
      "temperature T",
    );
    const here = Object.values(PRESETS).filter((one) => mapKey(TASK(one)) === mapKey(state));
    const places = here.map((one) => ({ of: one.state, x: mapX(one.state.ym), y: mapY(Math.log10(one.state.T)) }));
    for (const { x, y } of places) add("circle", { cx: x, cy: y, r: 4.5, class: "place" });
    add("g", { class: "cross" });
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect(),
        x = event.clientX - box.left,
        y = event.clientY - box.top;
      const near = places.find((spot) => Math.hypot(spot.x - x, spot.y - y) < 8);
      if (near) {
        change({ ...structuredClone(near.of), rho: 0 });
        return;
      }
      const ym =
        bounds.low + ((x - place.left) / (mapWidth - place.left - place.right)) * (bounds.high - bounds.low);
      const logT =
        bounds.hot -
        ((y - place.top) / (place.height - place.top - place.bottom)) * (bounds.hot - bounds.cold);
      if (ym < bounds.low || ym > bounds.high || logT < bounds.cold || logT > bounds.hot) return;
      change({ ...state, ym: Number(ym.toFixed(2)), T: Number((10 ** logT).toPrecision(2)) });
    });
    const done = map.filter((found) => found && !found.stale).length,
      all = MAP.targets.filter((y) => Math.abs(y - state.yp) > 1e-9).length;
    find("legend").textContent =
      done < all ? `solving: ${done} of ${all} columns` : `1 (dark) to ${MOST} (bright)`;
    drawCross();
  }

  // y₋ and log T by a step of the arrow keys; the place is kept inside of the map
  const STEPS = { ArrowLeft: [-0.02, 0], ArrowRight: [0.02, 0], ArrowUp: [0, 0.05], ArrowDown: [0, -0.05] };
  find("map").addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const size = event.shiftKey ? 5 : 1,
      within = (v, low, high) => Math.min(Math.max(v, low), high);
    const ym = within(state.ym + size * step[0], bounds.low, bounds.high),
      logT = within(Math.log10(state.T) + size * step[1], bounds.cold, bounds.hot);
    change({ ...state, ym: Number(ym.toFixed(2)), T: Number((10 ** logT).toPrecision(3)) });
  });

  function drawCross() {
    const cross = root.querySelector(".cross");
    if (!cross) return;
    const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
    const x = mapX(clamp(state.ym, bounds.low, bounds.high)),
      y = mapY(clamp(Math.log10(state.T), bounds.cold, bounds.hot));
    const arms = `M${x - 11},${y}H${x - 4}M${x + 4},${y}H${x + 11}M${x},${y - 11}V${y - 4}M${x},${y + 4}V${y + 11}`;
    cross.replaceChildren(element("path", { d: arms, class: "halo" }), element("path", { d: arms }));
    cross.dataset.x = x;
    cross.dataset.y = y;
  }

  function drawTransitions() {
    const target = find("transitions");
    if (!shown) {
      target.textContent = "–";
      return;
    }
    const known = ["hotter", "colder", "higher", "lower"].filter((kind) => kind in around);
    const in_ = (name, kinds, text) => {
      const found = kinds.map((kind) => around[kind]).filter(Boolean);
      if (found.length) {
        const start = name === "T" ? Math.log(state.T) : state.ym,
          far = ({ value }) => Math.abs((name === "T" ? Math.log(value) : value) - start);
        const best = found.reduce((a, b) => (far(b) < far(a) ? b : a));
        return `${name} = ${text(best.value)} (${best.before} → ${best.after} codes)`;
      }
      return kinds.every((kind) => kind in around) ? `none along ${name}` : null;
    };
    const parts = [
      in_(
        "T",
        ["hotter", "colder"],
        (v) =>
          `${significant(v)}, ${v > state.T ? "×" : "÷"} ${significant(Math.max(v / state.T, state.T / v))}`,
      ),
      in_(
        "y₋",
        ["lower", "higher"],
        (v) => `${round(v, 2)}, ${v > state.ym ? "+" : "−"}${Math.abs(v - state.ym).toFixed(2)}`,
      ),
    ].filter(Boolean);
    target.textContent = known.length === 4 ? parts.join("; ") : "looking …";
  }

  // --- the same task, three schemes ---------------------------------------------------------------

  const TOO_THIN = "At this overlap so few ReLU neurons share a class that their crowd is not resolved here; the library's theory.condensation has their number."; // prettier-ignore
  function missing() {
    if (around.relu?.failure) return `The solver stopped: ${around.relu.failure}.`;
    return state.rho && shown ? TOO_THIN : "The solve did not converge; nothing is drawn.";
  }

  function drawSchemes() {
    drawTabs();
    const failed = "relu" in around && !around.relu?.converged;
    for (const name of shown ? (failed ? ["relu"] : []) : ["linear", "sigmoidal", "relu"]) {
      find(`scheme-${name}`).replaceChildren();
      find(`text-${name}`).textContent = shown ? missing() : "";
    }
    if (!shown) return;
    drawSigmoidal();
    drawLinear(around.linear);
    find("scheme-relu").classList.toggle("stale", !("relu" in around)); // the last one's, until this one's is there
    if (around.relu?.converged) (around.relu.kernel ? drawCrowd : drawRelu)(around.relu);
    else if (!failed) find("text-relu").textContent = "solving …";
  }

  // --- tabs: each scheme's readouts, and its outputs against the targets ---------------------------

  const TABS = ["redundant", "analog", "sparse"];
  let tab = "redundant";

  function choose(name, focus = false) {
    tab = name;
    for (const other of TABS) {
      const button = find(`tab-${other}`);
      button.setAttribute("aria-selected", String(other === name));
      button.tabIndex = other === name ? 0 : -1;
      find(`panel-${other}`).hidden = other !== name;
    }
    if (focus) find(`tab-${name}`).focus();
    if (name === "redundant" && shown) {
      const said = find("status").textContent;
      drawSolution();
      say(said);
    }
    drawTabs();
  }

  for (const name of TABS) {
    find(`tab-${name}`).addEventListener("click", () => choose(name));
    find(`tab-${name}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: 2 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(TABS[(TABS.indexOf(name) + step) % 3], true);
    });
  }

  function drawTabs() {
    const solved = {
      redundant: shown,
      analog: shown ? around.linear : null,
      sparse: shown && around.relu?.converged ? around.relu : null,
    }[tab];
    for (const part of [`outputs-${tab}`, "gaussian", "strong"]) find(part).replaceChildren();
    const solving = tab === "sparse" && shown && !("relu" in around);
    if (tab !== "redundant") find(`note-${tab}`).textContent = solved ? "" : solving ? "solving …" : missing();
    if (!solved) return;
    drawOutputs(`outputs-${tab}`, solved.field);
    if (tab === "analog") drawGaussian(solved);
    else if (tab === "sparse") find("strong").replaceChildren(...(solved.kernel ? rowsOfCrowd(solved) : rowsOfStrong(solved)));
  }

  /** Outputs y − T t on every class, filled, inside of their targets, rings. */
  function drawOutputs(part, field) {
    const height = 150,
      { width, add } = canvas(part, height, "Outputs on the three classes, dots, and their targets, rings");
    const { yp, ym, T } = state,
      low = Math.min(yp, ym) - 0.15,
      high = Math.max(yp, ym) + 0.15,
      y = (f) => 8 + ((high - f) / (high - low)) * (height - 34);
    for (const tick of ticks(low, high, 4)) {
      add("line", { x1: 34, x2: width, y1: y(tick), y2: y(tick), class: "grid" });
      add("text", { x: 29, y: y(tick) + 4, "text-anchor": "end" }, significant(tick));
    }
    field.forEach((t, c) => {
      const left = 34 + (c * (width - 34)) / 3;
      add("text", { x: left + (width - 34) / 6, y: height - 6, "text-anchor": "middle" }, `class ${c}`);
      t.forEach((pull, r) => {
        const target = r === c ? yp : ym,
          x = left + ((r + 1) * (width - 34)) / 12;
        add("circle", { cx: x, cy: y(target), r: 6, fill: "none", stroke: `var(--output-${r})`, "stroke-width": 1.5 });
        add("circle", { cx: x, cy: y(target - T * pull), r: 3, style: `fill: var(--output-${r})` });
      });
    });
  }

  /** Readouts of the linear network: one Gaussian for each output. */
  function drawGaussian({ readoutCovariance }) {
    const height = 150,
      { width, add } = canvas("gaussian", height, "Gaussian densities of the three readouts");
    const deviations = readoutCovariance.map((row, r) => Math.sqrt(row[r])),
      reach = 3.2 * Math.max(...deviations),
      peak = 0.42 / Math.min(...deviations),
      x = (a) => ((a + reach) / (2 * reach)) * width;
    axis(add, { from: 0, to: width, at: height - 36, low: -reach, high: reach, count: 6, scale: x, label: "readout weight a" });
    deviations.forEach((deviation, r) => {
      const d = Array.from({ length: 161 }, (_, i) => {
        const a = -reach + (i * reach) / 80,
          f = Math.exp(-0.5 * (a / deviation) ** 2) / (deviation * Math.sqrt(2 * Math.PI));
        return `${i ? "L" : "M"}${x(a).toFixed(1)},${((height - 36) * (1 - f / peak)).toFixed(1)}`;
      }).join("");
      add("path", { d, class: `output output-${r}` });
    });
  }

  const numbers = (values) => values.map((v) => round(v, 3));

  function rowOf(cells, tag) {
    const made = document.createElement("tr");
    cells.forEach((text, k) => {
      const cell = document.createElement(tag === "th" || k === 0 ? "th" : "td");
      if (cell.tagName === "TH") cell.scope = tag === "th" ? "col" : "row";
      cell.textContent = text;
      made.append(cell);
    });
    return made;
  }

  /** Outliers of the ReLU network, and its bulk. */
  const rowsOfStrong = ({ outliers, bulkReadout, bulkActivations }) => [
    rowOf(["neuron", "a output 0", "a output 1", "a output 2", "class 0", "class 1", "class 2"], "th"),
    ...outliers.map(({ readout, preactivations }, k) => rowOf([`outlier ${k + 1}, over √N`, ...numbers(readout), ...numbers(preactivations)], "td")), // prettier-ignore
    rowOf(["bulk", ...numbers(bulkReadout), ...numbers(bulkActivations)], "td"),
  ];

  /** Of the crowd that shares a class where inputs are alike: how large a part of all neurons, and the kernel. */
  const rowsOfCrowd = ({ participation, activations, kernel }) => [
    rowOf(["over all neurons", "class 0", "class 1", "class 2"], "th"),
    rowOf(["part that carries the class", ...numbers(participation)], "td"),
    rowOf(["mean activation", ...numbers(activations)], "td"),
    ...kernel.map((row, c) => rowOf([`kernel with class ${c}`, ...numbers(row)], "td")),
  ];

  const SCHEME_HEIGHT = 170;

  /** Neurons as rows, classes as columns; rows: [{values, height, color}], heights in fractions of the picture. */
  function matrix(part, label, rows, color) {
    const { width, add } = canvas(part, SCHEME_HEIGHT + 20, label),
      left = 16,
      cell = (width - left) / 3;
    [0, 1, 2].forEach((c) =>
      add("text", { x: left + (c + 0.5) * cell, y: 12, "text-anchor": "middle" }, `class ${c}`),
    );
    let y = 20;
    for (const { values, height, mark } of rows) {
      const h = height * SCHEME_HEIGHT;
      values.forEach((value, c) =>
        add("rect", { x: left + c * cell, y, width: cell - 1, height: h + 0.3, fill: css(color(value)) }),
      );
      if (mark) add("rect", { x: 0, y, width: 10, height: Math.max(h - 1, 0.5), style: `fill: ${mark}` });
      y += h;
    }
  }

  function drawLinear({ readoutCovariance, spread, vectors, field, stiffness, trainingError }) {
    // Readouts at the quantiles of their Gaussian, along a low-discrepancy sequence, sorted by the largest direction
    const count = 60,
      alpha = [0.8191725134, 0.6710436067, 0.5497004779];
    const rows = Array.from({ length: count }, (_, n) => {
      const normal = alpha.map((step) => quantile((0.5 + (n + 1) * step) % 1));
      const a = [0, 1, 2].map((r) =>
        spread.reduce((sum, u, k) => sum + Math.sqrt(u) * normal[k] * vectors[k][r], 0),
      );
      return {
        order: normal[2],
        values: field.map((t, c) => stiffness[c] * (t[0] * a[0] + t[1] * a[1] + t[2] * a[2])),
        height: 1 / count,
      };
    }).sort((one, other) => one.order - other.order);
    const top = Math.max(...rows.flatMap(({ values }) => values.map(Math.abs)));
    matrix(
      "scheme-linear",
      "Sixty neurons of the linear network: their mean activations on the classes",
      rows,
      (v) => shade(REDS_BLUES, 0.5 + v / top / 2),
    );
    const deviations = readoutCovariance.map((row, r) => round(Math.sqrt(row[r]), 2)).join(", ");
    find("text-linear").textContent =
      `Every neuron answers in its own degree. Readouts are Gaussian, with standard deviations ${deviations}. Training error ${significant(trainingError)}.`;
  }

  /** Inverse of the Gaussian's cumulative distribution, to 1e-3 (a rational approximation). */
  function quantile(p) {
    const t = Math.sqrt(-2 * Math.log(Math.min(p, 1 - p)));
    const x = t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t);
    return p < 0.5 ? -x : x;
  }

  function drawSigmoidal() {
    const used = CODES.filter((code) => shown.occupancies[code] > 0.002);
    const rows = used.map((code) => ({
      values: shown.activations[code],
      height: shown.occupancies[code],
      mark: `var(--code-${code})`,
    }));
    matrix(
      "scheme-sigmoidal",
      "Neurons of the sigmoidal network, sorted by code: their mean activations on the classes",
      rows,
      (v) => shade(BLUES, v),
    );
    const count = used.filter((code) => shown.occupancies[code] >= 0.01).length;
    const many =
      count > 1 ? `Neurons share ${count} codes, many neurons to each` : "All neurons share one code";
    find("text-sigmoidal").textContent = `${many}. Training error ${significant(shown.trainingError)}.`;
  }

  function drawRelu({ outliers, family, bulkReadout, bulkActivations, trainingError }) {
    const top = Math.max(0.1, ...outliers.flatMap(({ preactivations }) => preactivations));
    const rows = outliers.map(({ preactivations }) => ({
      values: preactivations,
      height: 0.09,
      mark: "var(--scheme-relu)",
    }));
    rows.push({ values: [0, 0, 0], height: 1 - 0.09 * outliers.length });
    matrix("scheme-relu", "Neurons of the ReLU network: outliers above, the bulk below", rows, (v) =>
      shade(BLUES, v / top),
    );
    const list = (values) => `(${values.map((v) => round(v, 2)).join(", ")})`;
    const count = outliers.length;
    const who =
      count === 0
        ? "No outlier: all neurons stay in the bulk"
        : `${["", "One outlier", "Two outliers", "Three outliers"][count] ?? `${count} outliers`} of size √N ${count === 1 ? "carries" : "carry"} the task` +
          `${family ? " (one of many equivalent sets)" : ""}: z/√N = ${outliers.map(({ preactivations }) => list(preactivations)).join(", ")}`;
    find("text-relu").textContent =
      `${who}. Bulk: a = ${list(bulkReadout)}, ⟨φ⟩ = ${list(bulkActivations)}. Training error ${significant(trainingError)}.`;
  }

  function drawCrowd({ participation, trainingError }) {
    const rows = participation.map((part, c) => ({ values: [0, 1, 2].map((k) => (k === c ? 1 : 0)), height: part, mark: "var(--scheme-relu)" })); // prettier-ignore
    rows.push({ values: [0, 0, 0], height: 1 - participation.reduce((sum, part) => sum + part, 0) });
    matrix("scheme-relu", "Neurons of the ReLU network: the parts that carry the classes above, the bulk below", rows, (v) => shade(BLUES, v)); // prettier-ignore
    find("text-relu").textContent = `No outlier of size √N in a network wide enough: classes are carried by ${participation.map((part) => `${round(100 * part, 1)} %`).join(", ")} of its neurons (participation). Training error ${significant(trainingError)}.`; // prettier-ignore
  }

  // --- buttons and start --------------------------------------------------------------------------

  function csv() {
    const { r, yp, ym, T, P } = shown.state;
    const lines = [
      `# sigmoidal network, one hidden layer; overlap ${shown.state.rho}; class ratios ${r.join(" ")}; y_plus ${yp}; y_minus ${ym}; T ${T}; P ${P}`,
      `# training error ${shown.trainingError}; effective number of codes ${shown.effectiveCodes}; residual ${shown.residual}`,
      "code,share,phi_class_0,phi_class_1,phi_class_2,a_0,a_1,a_2,sampled_share,sampled_share_error",
      ...tableRows().map((row) => row.map((cell) => (Number.isNaN(cell) ? "" : cell)).join(",")),
    ];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "coding-scheme.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  async function copyLink() {
    const address = location.href.replace(/#.*$/, "") + hashOf(state);
    try {
      await navigator.clipboard.writeText(address);
      say("Link copied.");
    } catch {
      history.replaceState(null, "", hashOf(state));
      say("The browser allows no copying here; the address line holds the link.");
    }
  }

  for (const input of root.querySelectorAll("input")) {
    const control = CONTROLS[input.name];
    input.addEventListener(input.type === "range" ? "input" : "change", () => {
      const next = structuredClone(state);
      const value =
        input.type === "range"
          ? control.toValue(Number(input.value))
          : input.value.trim() === ""
            ? NaN
            : Number(input.value);
      control.set(next, value);
      change(next, input);
    });
  }
  for (const button of root.querySelectorAll("[data-preset]"))
    button.addEventListener("click", () => {
      choose(TABS.includes(button.dataset.preset) ? button.dataset.preset : "redundant");
      change(structuredClone(TASK(PRESETS[button.dataset.preset])));
    });
  for (const button of root.querySelectorAll("[data-try]"))
    button.addEventListener("click", () => {
      choose(button.dataset.tab ?? "redundant");
      change(fromHash(button.dataset.try));
    });
  find("reset").addEventListener("click", () => change(structuredClone(START)));
  find("link").addEventListener("click", copyLink);
  find("csv").addEventListener("click", csv);
  window.addEventListener("hashchange", () => {
    const given = fromHash(location.hash);
    if (given) change(given);
  });

  let drawnWidth = 0;
  new ResizeObserver(() => {
    if (root.clientWidth === drawnWidth) return;
    drawnWidth = root.clientWidth;
    drawMap();
    if (shown) {
      const said = find("status").textContent;
      drawSolution();
      say(said);
      drawSchemes();
    }
  }).observe(root);

  root.hidden = false;
  showControls();
  const given = fromHash(location.hash);
  if (given) change(given);
  showStored();
  if (!busy) ask();
})();
