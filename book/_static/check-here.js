/* "Check it here": a claim's number, sampled anew where the claim is read, beside what theory says of it.

   In Node, require("./check-here.js") gives what createChecks returns; on a claim's page a button starts a worker. Theory's
   numbers are the library's, with its 1/N: tests/laboratory/test_check_here.py solves for each of them again. */

function createChecks(laboratory) {
  "use strict";

  const RATIOS = [0.5, 0.25, 0.25];
  const SIZE = 60; // N = P
  const CODES = ["110", "101", "011", "111", "100", "010", "001", "000"];
  const FOUR = CODES.slice(0, 4); // codes in equilibrium at y₋ = ½
  const SETTLED = 0.7; // of the transitions, after which samples are averaged; cooling takes 60 %
  const EVERY = 4; // transitions from one sample to the next
  const name = (code) => [...code].join("-");
  const sum = (values) => values.reduce((total, x) => total + x, 0);
  const square = (size, yMinus, temperature) => ({ nonlinearity: "sigmoidal", numNeurons: size, numInputs: size, ratios: RATIOS, yMinus, temperature }); // prettier-ignore

  // --- what is measured: of a sample, [numerator, denominator] for each row ----------------------------

  const numbers = (codes) => (seen) => codes.map((code) => [seen.codes[code] ?? 0, 1]);

  /** Readouts of the neurons with each code: ⟨a_r⟩ and ⟨(a_r − theory's mean)²⟩. */
  const peaks = (means) => (seen) =>
    FOUR.flatMap((code, k) => {
      const own = seen.readouts.filter((_, i) => seen.neuronCodes[i] === code);
      return [0, 1, 2].flatMap((r) => [
        [sum(own.map((a) => a[r])), own.length],
        [sum(own.map((a) => (a[r] - means[k][r]) ** 2)), own.length],
      ]);
    });

  /** tr Cov(a) over the neurons of one network. */
  function spread({ readouts }) {
    const N = readouts.length;
    return [[sum([0, 1, 2].map((r) => sum(readouts.map((a) => a[r] ** 2)) / N - (sum(readouts.map((a) => a[r])) / N) ** 2)), 1]]; // prettier-ignore
  }

  /** Outliers, the readout to its own output and the preactivation of each class's, and the bulk's activation. */
  function outliers(seen) {
    const strongest = [0, 1, 2].map((c) => seen.means.reduce((best, row, i) => (row[c] > seen.means[best][c] ? i : best), 0));
    const bulk = seen.means.filter((_, i) => seen.neuronCodes[i] === "000");
    return [
      [seen.neuronCodes.filter((code) => code !== "000").length, 1],
      ...strongest.map((i, c) => [seen.readouts[i][c], 1]),
      ...strongest.map((i, c) => [seen.means[i][c], 1]),
      ...[0, 1, 2].map((c) => [sum(bulk.map((row) => row[c])), bulk.length]),
    ];
  }

  const participation = (seen) => [[1, sum(seen.participation.map((x) => 1 / x)) / 3]]; // ⟨1/PR⟩ is what theory has

  /** One neuron for each class carries its outputs, all others are as the prior has them: where a narrow network ends. */
  function condense(net) {
    const { N, P, firsts, overlap, u, a } = net;
    for (let c = 0; c < 3; c++) {
      const n = firsts[c + 1] - firsts[c],
        size = Math.sqrt(N * Math.sqrt((1 - overlap) / n + overlap)); // of its preactivations
      for (let m = 0; m < P; m++) u[N * m + c] = m >= firsts[c] && m < firsts[c + 1] ? size / Math.sqrt(1 - overlap + n * overlap) : -0.3; // prettier-ignore
      for (let r = 0; r < 3; r++) a[N * r + c] = ((r === c ? 0.7 : -0.35) * Math.sqrt(P) * N) / size;
    }
    net.fresh = false;
  }

  // --- the claims ---------------------------------------------------------------------------------------

  const PEAKS = [
    [[1.590001, 0.0218433], [1.326997, 0.0210781], [-0.2212817, 0.0285905]],
    [[1.590001, 0.0218433], [-0.2212817, 0.0285905], [1.326997, 0.0210781]],
    [[-0.2455221, 0.0579014], [1.415496, 0.0196263], [1.415496, 0.0196263]],
    [[0.9521992, 0.0727375], [1.156752, 0.0321747], [1.156752, 0.0321747]],
  ]; // prettier-ignore

  /** A place of a check: options of the networks, names of what is measured, theory's values. */
  const of = (options, names, theory, measure, more = {}) => ({ options, names, theory, measure, ...more });
  const place = (yMinus, temperature, found) => of(square(SIZE, yMinus, temperature), Object.keys(found).map((code) => `${name(code)} at y₋ = ${yMinus}, T = ${temperature}`), Object.values(found), numbers(Object.keys(found)), { whole: true }); // prettier-ignore

  const CLAIMS = {
    A8: {
      what: "the number of neurons with each code",
      theory: "theory with its 1/N and whole neurons",
      networks: 20,
      places: [of(square(SIZE, 0.5, 0.02), FOUR.map(name), [16.8654, 16.8654, 16.299, 9.97024], numbers(FOUR), { whole: true })],
    },
    A9: {
      what: "mean and variance of the readouts at each peak of their density",
      theory: "theory at this P, peaks with their 1/N",
      networks: 20,
      places: [of(square(SIZE, 0.5, 0.02), FOUR.flatMap((code) => [0, 1, 2].flatMap((r) => [`${name(code)}, mean of a${"₀₁₂"[r]}`, `${name(code)}, variance of a${"₀₁₂"[r]}`])), PEAKS.flat(2), peaks(PEAKS.map((row) => row.map(([mean]) => mean))))], // prettier-ignore
    },
    A11: {
      way: "drawn from the prior and put at T = 0.001 at once",
      what: "which codes they hold at y₋ = 0.1, 0.2, … 0.5, and how many such schemes differ",
      theory: "the published number; equilibrium has 2",
      networks: 6,
      schemes: [0.01, 0.02, 0.05], // of the neurons, from which on a code counts
      places: [0.1, 0.2, 0.3, 0.4, 0.5].map((yMinus) => of({ ...square(SIZE, yMinus, 0.001), startTemperature: 0.001, transitions: 200 }, [], [4], numbers(CODES))), // prettier-ignore
    },
    A13: {
      what: "the variance of the readouts below and above the critical temperature, 0.065 here",
      theory: "theory with its 1/N; two groups of neurons or more would make it half and more",
      networks: 6,
      places: [[0.04, 1.015996], [0.05, 0.7368040], [0.1, 0.0930338], [0.12, 0.0748900]].map(([T, value]) => of(square(SIZE, 0.5, T), [`T = ${T}`], [value], spread)), // prettier-ignore
    },
    A15: {
      what: "number and strength of the outliers of a ReLU network, and the activity of the bulk",
      theory: "theory with its 1/N and 1/P",
      networks: 12,
      places: [of({ ...square(SIZE, -0.5, 0.01), nonlinearity: "relu" }, ["outliers", ...[0, 1, 2].map((c) => `readout of class ${c}'s outlier`), ...[0, 1, 2].map((c) => `preactivation of class ${c}'s outlier`), ...[0, 1, 2].map((c) => `activation of the bulk on class ${c}`)], [3, 5.62302, 4.91632, 4.91632, 9.79198, 12.10042, 12.10042, 0.484185, 0.359934, 0.359934], outliers)], // prettier-ignore
    },
    D1: {
      what: "numbers of neurons with each code at four places of the phase diagram, drawn by the seed from twelve",
      theory: "theory with its 1/N",
      networks: 5,
      drawn: 4,
      places: [], // below
    },
    D8: {
      what: "the variance of the number of neurons with each code over networks of N = P = 30",
      theory: "theory for whole neurons; neurons that choose alone would scatter by 5.8, 5.8, 5.7, 4.6",
      networks: 64,
      places: [of(square(30, 0.5, 0.02), FOUR.map(name), [0.394746, 0.402176, 0.72749, 1.5703], numbers(FOUR), { variance: [0.457509, 0.486168, 1.588152, 7.388308] })], // prettier-ignore
    },
  };

  const CROWD = { ...square(SIZE, -0.5, 0.1), nonlinearity: "relu", numNeurons: 200, numInputs: 24, overlap: 0.7, transitions: 700 };
  CLAIMS.D10 = {
    way: "of 200 neurons on 24 inputs that overlap by 0.7 within a class, at T = 0.1",
    what: "how many neurons share a class (participation), from either start",
    theory: "theory for N ≫ N*: the crowd of infinite width, with the law of whole numbers of neurons",
    networks: 6,
    places: [
      of(CROWD, ["drawn from the prior and cooled"], [17.46555], participation),
      of({ ...CROWD, startTemperature: 0.1 }, ["put at T with one neuron for each class"], [17.46555], participation, { begin: condense }), // prettier-ignore
    ],
  };

  // y₋, T and the numbers, of codes with a third of a neuron or more. Colder than this at y₋ = 0.1 codes freeze in on cooling
  const DIAGRAM = [
    [0.1, 0.1, { 110: 17.1166, 101: 17.1166, "011": 16.441, 111: 0.928036, 100: 8.3188 }],
    [0.25, 0.03, { 110: 20.2712, 101: 20.2712, "011": 19.461 }],
    [0.25, 0.06, { 110: 19.9104, 101: 19.9104, "011": 18.8366, 111: 0.522075, 100: 0.820246 }],
    [0.25, 0.1, { 110: 14.2371, 101: 14.2371, "011": 11.682, 111: 14.8934, 100: 4.92564 }],
    [0.4, 0.03, { 110: 19.0174, 101: 19.0174, "011": 19.0968, 111: 2.86733 }],
    [0.4, 0.06, { 110: 15.5282, 101: 15.5282, "011": 13.2622, 111: 15.0648, 100: 0.616363 }],
    [0.4, 0.1, { 110: 6.12331, 101: 6.12331, "011": 1.84416, 111: 44.7215, 100: 1.18544 }],
    [0.5, 0.03, { 110: 15.7832, 101: 15.7832, "011": 14.4217, 111: 14.0073 }],
    [0.5, 0.06, { 110: 9.99241, 101: 9.99241, "011": 6.59171, 111: 32.7697, 100: 0.653733 }],
    [0.5, 0.1, { 110: 1.52744, 101: 1.52744, 111: 56.797 }],
    [0.65, 0.03, { 110: 9.24851, 101: 9.24851, "011": 6.34433, 111: 35.1225 }],
    [0.65, 0.06, { 110: 0.734925, 101: 0.734925, 111: 58.4677 }],
  ];
  for (const [yMinus, temperature, found] of DIAGRAM) CLAIMS.D1.places.push(place(yMinus, temperature, found));

  // --- running -------------------------------------------------------------------------------------------

  /** Of one network, numerators and denominators of every row: averaged over the end of its run, or, of a variance, at the end. */
  function sampled({ options, measure, variance, begin: prepare }, seed) {
    const net = laboratory.makeNetwork({ ...options, seed }),
      { transitions } = net.setting,
      settled = variance ? transitions - 1 : Math.floor(SETTLED * transitions);
    let total = null,
      count = 0;
    prepare?.(net);
    for (let k = 0; k < transitions; k++) {
      laboratory.advance(net, laboratory.temperatureAt(net.setting, k), k < settled);
      if (k < settled || (transitions - 1 - k) % EVERY) continue;
      const found = measure(laboratory.observe(net));
      total = total ? total.map((row, r) => row.map((x, j) => x + found[r][j])) : found;
      count++;
    }
    return total.map((row) => row.map((x) => x / count));
  }

  /** Rows {name, value, error, theory, away} of a place, from what its networks gave. */
  function judged({ names, theory, variance, whole }, runs) {
    return names.map((title, r) => {
      const n = runs.length,
        top = sum(runs.map((run) => run[r][0])) / n,
        bottom = sum(runs.map((run) => run[r][1])) / n;
      const squares = sum(runs.map((run) => (run[r][0] - (top / bottom) * run[r][1]) ** 2)) / (n - 1);
      let value = top / bottom,
        error = Math.sqrt(squares / n) / bottom;
      // of whole numbers whose mean has the fractional part f the variance is f (1 − f) at least
      if (whole) error = Math.max(error, Math.sqrt(((theory[r] % 1) * (1 - (theory[r] % 1))) / n));
      if (variance) [value, error] = [squares, Math.sqrt((variance[r] - theory[r] ** 2) / n)];
      const off = value - theory[r];
      return { name: title, value, error, theory: theory[r], away: off === 0 ? 0 : Math.abs(off) / error };
    });
  }

  /** How many schemes differ along a line of places: mean and scatter over what counts as a code's presence, and over
      networks drawn again from those at hand; a whole number is uncertain by 1/√12 at least. */
  function counted({ schemes, places: [{ theory }] }, runs, uniform) {
    const count = (least, drawn) =>
      new Set(drawn.map((own) => CODES.filter((_, r) => sum(own.map((run) => run[r][0])) > least * SIZE * own.length).join())).size; // prettier-ignore
    const again = Array.from({ length: 200 }, () => runs.map((own) => own.map(() => own[Math.floor(uniform() * own.length)]))),
      counts = schemes.flatMap((least) => again.map((drawn) => count(least, drawn))),
      value = sum(schemes.map((least) => count(least, runs))) / schemes.length;
    const mean = sum(counts) / counts.length,
      error = Math.max(Math.sqrt(sum(counts.map((x) => (x - mean) ** 2)) / counts.length), 1 / Math.sqrt(12));
    return [{ name: "schemes, codes counted from 1, 2 and 5 % of the neurons", value, error, theory: theory[0], away: Math.abs(value - theory[0]) / error }]; // prettier-ignore
  }

  /** A check of a claim, network by network: {count, next(), result()}; `next` samples one. */
  function begin(id, seed) {
    const { places, drawn = places.length, networks } = CLAIMS[id],
      { uniform } = laboratory.makeRandom(seed),
      waiting = [...places],
      chosen = Array.from({ length: drawn }, () => waiting.splice(drawn < places.length ? Math.floor(uniform() * waiting.length) : 0, 1)[0]), // prettier-ignore
      runs = chosen.map(() => []);
    let done = 0;
    return {
      count: networks * chosen.length,
      next() {
        const which = done % chosen.length;
        runs[which].push(sampled(chosen[which], (seed + 7919 * done) % 2 ** 31));
        return ++done;
      },
      result() {
        const rows = CLAIMS[id].schemes ? counted(CLAIMS[id], runs, uniform) : chosen.flatMap((one, k) => judged(one, runs[k])), // prettier-ignore
          away = Math.max(...rows.map((row) => row.away));
        if (CLAIMS[id].schemes) return { rows, away, chance: null };
        return { rows, away, chance: chanceOf(away, rows.length, CLAIMS[id].places[0].variance ? Infinity : networks - 1) };
      },
    };
  }

  /** How often the largest of so many independent differences is this large where theory is right: Student's law. */
  function chanceOf(away, count, freedom) {
    if (!Number.isFinite(away)) return 0;
    const density = (x) => (freedom === Infinity ? Math.exp(-0.5 * x * x) : (1 + (x * x) / freedom) ** (-0.5 * (freedom + 1)));
    const steps = 4000,
      to = 60; // t = tan θ would do as well; beyond 60 nothing is left that matters
    let below = 0,
      all = 0;
    for (let k = 0; k < steps; k++) {
      const x = (to * (k + 0.5) ** 2) / steps ** 2,
        weight = density(x) * (2 * k + 1);
      all += weight;
      if (x < away) below += weight;
    }
    return 1 - (below / all) ** count;
  }

  return { CLAIMS, begin, chanceOf };
}

if (typeof module !== "undefined") module.exports = createChecks(require("./laboratory.js"));
else
  (function () {
    "use strict";

    const root = document.querySelector(".check-here");
    if (!root) return;
    const id = root.dataset.claim,
      { what, theory, networks, places, drawn = places.length, way = "drawn from the prior and cooled" } = createChecks(null).CLAIMS[id];
    const [start, stop] = root.querySelectorAll("button"),
      bar = root.querySelector("progress"),
      said = root.querySelector("[role=status]"),
      table = root.querySelector("table");
    let worker = null,
      began = 0;

    const signed = (text) => text.replace("-", "−");
    const digits = ({ error, theory: expected }) => Math.min(5, Math.max(0, 1 - Math.floor(Math.log10(error || Math.abs(expected) / 100 || 1)))); // prettier-ignore

    root.querySelector("p").textContent = `Your browser samples ${networks * drawn} networks of its own, ${way}, and measures ${what}; beside it stands ${theory}.`; // prettier-ignore

    function rest(text) {
      worker?.terminate();
      worker = null;
      start.disabled = false;
      stop.disabled = true;
      said.textContent = text;
    }

    function row(cells, head) {
      const made = document.createElement("tr");
      cells.forEach((text, k) => {
        const cell = document.createElement(head || k === 0 ? "th" : "td");
        if (cell.tagName === "TH") cell.scope = head ? "col" : "row";
        cell.textContent = text;
        made.append(cell);
      });
      return made;
    }

    function received({ done, count, result, seed, failure }) {
      if (failure) {
        rest(`The sampler stopped: ${failure}.`);
        return;
      }
      bar.max = count;
      bar.value = done;
      if (!result) {
        if (done === 1 || done % 5 === 0) said.textContent = `${done} of ${count} networks, seed ${seed}.`;
        return;
      }
      const { rows, away, chance } = result;
      table.replaceChildren(
        row(["quantity", "sampled here", "standard error", "theory", "standard errors away"], true),
        ...rows.map((one) => row([one.name, signed(one.value.toFixed(digits(one))), one.error ? one.error.toFixed(digits(one)) : "0", signed(one.theory.toFixed(digits(one))), Number.isFinite(one.away) ? one.away.toFixed(1) : "exact numbers differ"])), // prettier-ignore
      );
      root.dataset.away = away;
      if (chance === null) {
        rest(`Seed ${seed}, ${((Date.now() - began) / 1000).toFixed(0)} s: ${away.toFixed(1)} standard errors from the published number.`);
        return;
      }
      const largest = `the largest of ${rows.length} differences is ${away.toFixed(1)} standard errors`;
      const likely = chance < 0.001 ? "less than one such check in a thousand" : chance < 0.095 ? `${Math.max(1, Math.round(100 * chance))} such check${Math.round(100 * chance) > 1 ? "s" : ""} in a hundred` : `${Math.round(10 * chance)} such check${Math.round(10 * chance) > 1 ? "s" : ""} in ten`; // prettier-ignore
      rest(`Seed ${seed}, ${((Date.now() - began) / 1000).toFixed(0)} s: ${largest}. Where theory is right ${likely} end${/^(1 |less)/.test(likely) ? "s" : ""} this far away or farther.`); // prettier-ignore
    }

    start.addEventListener("click", () => {
      const seed = crypto.getRandomValues(new Uint32Array(1))[0] % 1e6;
      const body = `const laboratory = (${createLaboratory})((${createSolver})().makeTask), checks = (${createChecks})(laboratory);
        onmessage = ({ data: { id, seed } }) => {
          try {
            const check = checks.begin(id, seed);
            for (let done = 0; done < check.count;) {
              done = check.next();
              postMessage({ done, count: check.count, seed, result: done === check.count ? check.result() : null });
            }
          } catch ({ message }) { postMessage({ failure: message }); }
        };`;
      table.replaceChildren();
      delete root.dataset.away;
      bar.value = 0;
      start.disabled = true;
      stop.disabled = false;
      began = Date.now();
      said.textContent = `Sampling, seed ${seed}.`;
      try {
        worker = new Worker(URL.createObjectURL(new Blob([body], { type: "text/javascript" })));
      } catch {
        rest("This browser allows no workers here, so that nothing can be sampled.");
        return;
      }
      worker.onmessage = ({ data }) => received(data);
      worker.onerror = (event) => rest(`The sampler stopped: ${event.message || "no reason given"}.`);
      worker.postMessage({ id, seed });
    });
    stop.addEventListener("click", () => rest(`Stopped after ${bar.value} of ${bar.max} networks.`));
    start.disabled = false;
  })();
