/* A network with one hidden layer, sampled where the page is read: three classes, three outputs, inputs that are orthogonal
   or alike within a class.

   In Node, require("./laboratory.js") gives what createLaboratory returns; in the page, laboratory-page.js runs it in
   workers. The posterior is that of posterior.Posterior, moves are those of sampling.moves, against which the tests hold
   every number. Weights are kept input by input: u[N μ + i] of neuron i, prior N(0, 1), and a[N r + i], the readouts over σ_a.
   Exponentials and logarithms are made here from sums and products, as the last digits of Math's differ between browsers: one
   seed gives one network everywhere.

   `respond` is also there as a WebAssembly kernel on vectors of two numbers (laboratory.wat, two to three times as fast); where
   a browser has none, JavaScript does the work, bit by bit the same. */

function createLaboratory(makeTask) {
  "use strict";

  const MOST_STEPS = 40; // leapfrog steps of a transition
  const ACCEPTANCE = 0.8; // that the step size is adapted to
  const DIVERGENT = 1000; // a rise of the energy beyond which something is wrong
  const LENGTH = Math.PI / 2; // of a trajectory, in standard deviations of the prior
  const GIBBS_EVERY = 3; // transitions
  const LANGEVIN_STEP = 0.3; // ε over √T
  const COOLING = 0.6; // of the transitions

  // --- functions that give the same bits everywhere ---------------------------------------------------

  const double = new Float64Array(1),
    words = new Uint32Array(double.buffer); // the second holds sign, exponent and first digits

  /** e^x to rounding: x = k log 2 + r, and the series of e^r. */
  function exp(x) {
    if (!(x > -700)) return Number.isNaN(x) ? NaN : 0;
    if (x > 700) return Infinity;
    const k = Math.round(x / Math.LN2),
      r = x - k * 0.6931471803691238 - k * 1.9082149292705877e-10; // log 2 in two parts
    let sum = 1;
    for (let n = 14; n > 0; n--) sum = 1 + (r / n) * sum;
    words[0] = 0;
    words[1] = (k + 1023) << 20;
    return sum * double[0];
  }

  /** The natural logarithm to rounding, for normal x > 0: x = 2^k m, and 2 artanh((m − 1)/(m + 1)). */
  function log(x) {
    double[0] = x;
    let k = (words[1] >>> 20) - 1023;
    words[1] = (words[1] & 0xfffff) | (1023 << 20);
    let m = double[0];
    if (m > Math.SQRT2) {
      m /= 2;
      k++;
    }
    const s = (m - 1) / (m + 1);
    let sum = 0;
    for (let n = 23; n > 0; n -= 2) sum = 1 / n + s * s * sum;
    return k * 0.6931471803691238 + (k * 1.9082149292705877e-10 + 2 * s * sum);
  }

  // --- nonlinearities: φ and φ' by one table each ---------------------------------------------------

  const gauss = (z) => exp(-0.25 * Math.PI * z * z);
  const NONLINEARITIES = {
    linear: { phi: (z) => z, derivative: () => 1, bounded: false, below: 1 }, // below: slope at z < 0 of two straight lines
    sigmoidal: { phi: (z) => 0.5 + 0.5 * erf(0.5 * Math.sqrt(Math.PI) * z), derivative: (z) => 0.5 * gauss(z), bounded: true, middle: 0.5 }, // prettier-ignore
    relu: { phi: (z) => Math.max(z, 0), derivative: (z) => (z > 0 ? 1 : 0), bounded: false, below: 0 },
    tanh: { phi: tanh, derivative: (z) => 1 - tanh(z) * tanh(z), bounded: true, middle: 0 },
    softplus: { phi: (z) => Math.max(z, 0) + log(1 + exp(-Math.abs(z))), derivative: (z) => 0.5 + 0.5 * tanh(z / 2), bounded: false }, // prettier-ignore
    relu_squared: { phi: (z) => Math.max(z, 0) * Math.max(z, 0), derivative: (z) => 2 * Math.max(z, 0), bounded: false },
  };

  function tanh(z) {
    const e = exp(-2 * Math.abs(z));
    return (Math.sign(z) * (1 - e)) / (1 + e);
  }

  /** erf to rounding: the series of e^{x²} erf x, and 1 − continued fraction beyond 3. */
  function erf(x) {
    const u = Math.abs(x);
    if (u > 6) return Math.sign(x);
    let value = 0;
    if (u < 3) {
      let term = u;
      for (let n = 1; value + term !== value; n++) {
        value += term;
        term *= (2 * u * u) / (2 * n + 1);
      }
      value *= (2 / Math.sqrt(Math.PI)) * exp(-u * u);
    } else {
      for (let n = 60; n > 0; n--) value = n / 2 / (u + value);
      value = 1 - exp(-u * u) / Math.sqrt(Math.PI) / (u + value);
    }
    return Math.sign(x) * value;
  }

  const NODES_PER_UNIT = 16,
    REACH = 20;

  /** Coefficients of φ's cubic Hermite interpolant between nodes 1/16 apart, four for each interval of [−20, 20).

      It errs by 2e-7 at most, its slope is continuous, and it is exact for piecewise polynomials that break at a node. Beyond the
      ends its first and last polynomial go on: of a saturated φ a constant, of softplus a line. */
  function makeTable({ phi, derivative }) {
    const count = 2 * REACH * NODES_PER_UNIT,
      h = 1 / NODES_PER_UNIT,
      table = new Float64Array(4 * count);
    for (let k = 0; k < count; k++) {
      const z = k * h - REACH,
        low = phi(z),
        high = phi(z + h);
      // one-sided slopes, so that a kink at a node stays a kink
      const left = derivative(z + 1e-12) * h,
        right = derivative(z + h - 1e-12) * h;
      const end = k === 0 || k === count - 1; // a line or a parabola; no cubic that would run away
      const second = end ? ((right - left) / 2 > 1e-6 ? (right - left) / 2 : 0) : 3 * (high - low) - 2 * left - right;
      table.set([low, end ? high - low - second : left, second, end ? 0 : left + right - 2 * (high - low)], 4 * k);
    }
    return table;
  }

  const tables = new Map(); // made once for each nonlinearity

  /** How `sweep` finds φ(slope z): by a table, or, of two straight lines, by the sign of z. */
  function shapeOf(nonlinearity, slope) {
    const { below } = nonlinearity;
    if (below === undefined && !tables.has(nonlinearity)) tables.set(nonlinearity, makeTable(nonlinearity));
    if (below === undefined) return { table: tables.get(nonlinearity), toNodes: slope * NODES_PER_UNIT, levels: null };
    return { table: null, toNodes: slope, levels: Float64Array.of(below * slope, slope) };
  }

  // --- random numbers: the same from the same seed, everywhere --------------------------------------

  /** {uniform, normal}: sfc32 (C. Doty-Humphrey), and normals by the ziggurat (Marsaglia & Tsang 2000, 128 layers). */
  function makeRandom(seed) {
    let a = 0x9e3779b9 | 0,
      b = 0x243f6a88 | 0,
      c = seed | 0,
      counter = 1;
    function next() {
      const found = (((a + b) | 0) + counter) | 0;
      counter = (counter + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + found) | 0;
      return found;
    }
    for (let k = 0; k < 20; k++) next();
    const uniform = () => ((next() >>> 0) + 0.5) / 4294967296; // in (0, 1)
    function normal() {
      for (;;) {
        const bits = next(),
          layer = bits & 127,
          x = (bits >> 8) * ZIGGURAT.width[layer];
        if (x < ZIGGURAT.edge[layer + 1] && -x < ZIGGURAT.edge[layer + 1]) return x;
        if (layer === 0) {
          let tail, height;
          do {
            tail = -log(uniform()) / ZIGGURAT.start;
            height = -log(uniform());
          } while (2 * height < tail * tail);
          return bits < 0 ? -ZIGGURAT.start - tail : ZIGGURAT.start + tail;
        }
        const { height } = ZIGGURAT;
        if (height[layer] + uniform() * (height[layer + 1] - height[layer]) < exp(-0.5 * x * x)) return x;
      }
    }
    return { uniform, normal };
  }

  const ZIGGURAT = makeZiggurat();

  /** Layers of equal area under e^{−x²/2}: their edges from the tail inward, heights there, widths per 2⁻²³. */
  function makeZiggurat() {
    const start = 3.442619855899,
      area = 9.91256303526217e-3,
      f = (x) => exp(-0.5 * x * x);
    const edge = new Float64Array(129),
      width = new Float64Array(128);
    edge[0] = area / f(start); // of the bottom layer with its tail
    edge[1] = start;
    for (let k = 2; k < 128; k++) edge[k] = Math.sqrt(-2 * log(area / edge[k - 1] + f(edge[k - 1])));
    for (let k = 0; k < 128; k++) width[k] = edge[k] / 8388608;
    return { start, edge, width, height: edge.map(f) };
  }

  // --- the kernel -----------------------------------------------------------------------------------

  // laboratory.wat, assembled; tests/explorer/test_lint.py does it again
  const KERNEL =
    "AGFzbQEAAAABGQFgFH9/f39/f39/f39/f398fHx8fHx8AXwCDAEABm1lbW9yeQIAAQMCAQAHCQEFc3dlZXAAAAqOCwGLCwUOfwF7An8XewN8IABBA3Qh" +
    "FCAHIBRqIRsgGyAUaiEcIAggFGohHSAdIBRqIR4gBCACRiEhIA39FCE3IA79FCE4IA/9FCE5IBL9FCE6IBP9FCE7IBEgEKIhPQNAIBQhF0EYISBEAAAA" +
    "AAAA8D8hPCAVQQFqIAFGBEBBACEXQQAhIEQAAAAAAAAAACE8C/0MAAAAAAAAAAAAAAAAAAAAACEx/QwAAAAAAAAAAAAAAAAAAAAAITL9DAAAAAAAAAAA" +
    "AAAAAAAAAAAhM0EAIRggDCEaA0AgBCAWaiAYaiEZIBkgF2ogGf1dAwD9VwMAASElIAsEQCAlIDf98gH9DAAAAAAAAHRAAAAAAAAAdED98AEhJf0MAAAA" +
    "AAAAAAAAAAAAAAAAAP0MAAAAAAD4g0AAAAAAAPiDQCAl/fYB/fcB/fwBISIgJSAi/f4B/fEBISYgCyAi/RsAQQV0aiEjIAsgIv0bAUEFdGohJCAj/QAE" +
    "ACEqICP9AAQQISsgJP0ABAAhLCAk/QAEECEtICogLP0NCAkKCwwNDg8YGRobHB0eHyEuICsgLf0NAAECAwQFBgcQERITFBUWFyEvICYgKyAt/Q0ICQoL" +
    "DA0ODxgZGhscHR4f/fIBITAgKiAs/Q0AAQIDBAUGBxAREhMUFRYXICYgLiAmIC8gMP3wAf3yAf3wAf3yAf3wASEnIDcgLiAm/QwAAAAAAAAAQAAAAAAA" +
    "AABAIC/98gH9DAAAAAAAAAhAAAAAAAAACEAgMP3yAf3wAf3yAf3wAf3yASEoBSA4IDkgJUE//cwB/VIhKCAoICX98gEhJwsgGiAn/QsEACAaIBRBAXRq" +
    "ICj9CwQAIDEgByAYav0KAwAgJ/3yAf3wASExIDIgGyAYav0KAwAgJ/3yAf3wASEyIDMgHCAYav0KAwAgJ/3yAf3wASEzIBpBEGohGiAYQQhqIhggFEkN" +
    "AAsgCSAfaiEZIBkgIGohJCAQ/RQhKCAkIBn9XQMA/VcDAAEgKCAx/fIB/fEBITQgJCAZ/V0DCP1XAwgBICggMv3yAf3xASE1ICQgGf1dAxD9VwMQASAo" +
    "IDP98gH98QEhNiAKIB9qIRkgGSAgaiEkICQgNP1bAwABICQgNf1bAwgBICQgNv1bAxABIBkgNP1bAwAAIBkgNf1bAwgAIBkgNv1bAxAAIDQgNP3yASA1" +
    "IDX98gH98AEgNiA2/fIB/fABISggPiAo/SEAIDwgKP0hAaKgoCE+ID39FCA9IDyi/SIBISggKCA0/fIBITQgKCA1/fIBITUgKCA2/fIBITZBACEYIAwh" +
    "GgNAIBr9AAQAIScgGiAUQQF0av0ABAAgByAYav0KAwAgNP3yASAbIBhq/QoDACA1/fIB/fABIBwgGGr9CgMAIDb98gH98AH98gEhKCAnIDT98gEhKSAI" +
    "IBhqIRkgGSAZKwMAICn9IQAgKf0hAaCgOQMAICcgNf3yASEpIB0gGGohGSAZIBkrAwAgKf0hACAp/SEBoKA5AwAgJyA2/fIBISkgHiAYaiEZIBkgGSsD" +
    "ACAp/SEAICn9IQGgoDkDACAWIBhqISMgIyAXaiEkICEEQCACICRqIAIgI2r9XQMA/VcDAAEhJSADICRqIAMgI2r9XQMA/VcDAAEgOiAoICX98QH98gH9" +
    "8AEhKSAlIDsgKf3yAf3wASElIAMgJGogKf1bAwABIAMgI2ogKf1bAwAAIAIgJGogJf1bAwABIAIgI2ogJf1bAwAABSAFICRqICj9WwMAASAFICNqICj9" +
    "WwMAAAsgE0QAAAAAAAAAAGEEQCAGICRqICf9WwMAASAGICNqICf9WwMAAAsgGkEQaiEaIBhBCGoiGCAUSQ0ACyAWIBRBAXRqIRYgH0EwaiEfIBVBAmoi" +
    "FSABSQ0ACyA+Cw==";

  /** The assembled kernel, or null where a browser takes none. */
  function compiled() {
    try {
      return new WebAssembly.Module(Uint8Array.from(atob(KERNEL), (letter) => letter.charCodeAt(0)));
    } catch {
      return null;
    }
  }
  const kernel = compiled();

  /** Room for so many numbers, where the kernel can reach them: {empty(count), sweepOf(net)}.

      `empty` gives an array after the last one; `sweepOf` the kernel on a network's arrays, as a function of precision, kick and
      drift that returns the squared error, or null where there is no kernel. */
  function makeRoom(size) {
    if (kernel === null) return { empty: (count) => new Float64Array(count), sweepOf: () => null };
    const memory = new WebAssembly.Memory({ initial: Math.ceil(size / 8192) }), // pages of 64 KiB
      { sweep: pass } = new WebAssembly.Instance(kernel, { "": { memory } }).exports;
    let used = 0;
    function empty(count) {
      used += count;
      return new Float64Array(memory.buffer, 8 * (used - count), count);
    }
    function sweepOf({ N, P, u, p, z, pull, h, a, ga, targets, residual, table, values, toNodes, levels, outputScale }) {
      const [, p0, z0, pull0, h0, a0, ga0, targets0, residual0, values0] = [u, p, z, pull, h, a, ga, targets, residual, values].map((x) => x.byteOffset), // prettier-ignore
        table0 = table === null ? 0 : table.byteOffset, // nowhere, as u lies there
        [low, high] = levels ?? [0, 0];
      return (precision, kick, drift) => pass(N, P, 0, p0, z0, pull0, h0, a0, ga0, targets0, residual0, table0, values0, toNodes, low, high, outputScale, precision, kick, drift); // prettier-ignore
    }
    return { empty, sweepOf };
  }

  // --- the network ----------------------------------------------------------------------------------

  const LIMITS = { numNeurons: [2, 400], numInputs: [3, 400] };

  /** The options with defaults, checked; throws RangeError with what is allowed. */
  function checked(options) {
    const found = { slope: 1, yPlus: 1, overlap: 0, seed: 1, scaling: 1, transitions: 600, startTemperature: 1, method: "hmc", ...options }; // prettier-ignore
    for (const [name, [least, most]] of Object.entries(LIMITS))
      if (!(Number.isInteger(found[name]) && found[name] >= least && found[name] <= most))
        throw new RangeError(
          `${name === "numInputs" ? "P" : "N"}: got ${found[name]}; allowed are whole numbers from ${least} to ${most}`,
        );
    for (const [name, choices] of [
      ["nonlinearity", Object.keys(NONLINEARITIES)],
      ["method", ["hmc", "langevin"]],
    ])
      if (!choices.includes(found[name]))
        throw new RangeError(`${name}: got ${found[name]}; allowed are ${choices.join(", ")}`);
    for (const [name, text, least, most] of [
      ["slope", "Slope of φ", 0.1, 10],
      ["overlap", "Overlap ρ", 0, 0.99],
      ["scaling", "Scaling", 0, 1],
      ["startTemperature", "Temperature at the start", 1e-5, 10],
    ])
      if (!(found[name] >= least && found[name] <= most))
        throw new RangeError(`${text}: got ${found[name]}; allowed are numbers from ${least} to ${most}`);
    for (const [name, least] of [
      ["seed", 0],
      ["transitions", 1],
    ])
      if (!(Number.isInteger(found[name]) && found[name] >= least && found[name] < 2 ** 31))
        throw new RangeError(`${name}: got ${found[name]}; allowed are whole numbers from ${least} to ${2 ** 31 - 1}`);
    return { ...found, ...makeTask(found) };
  }

  /** A network drawn from the prior, for `advance` to go on from.

      The energy is U = β/2 ‖Y − f‖² + ‖a‖²/2 + ‖u‖²/2, f = c Σ_i a_i φ(z_i) with β = N^g/T and c = σ_a N^{−(1+g)/2},
      σ_a² = P^{−g}; g = 1 is the non-lazy scaling, 0 the lazy one. Preactivations are z = R u, where R is √(1−ρ), but
      √(1−ρ+n_c ρ) on the mean of a class. */
  function makeNetwork(options) {
    const setting = checked(options),
      { numNeurons: N, numInputs: P, counts, overlap, scaling } = setting,
      nonlinearity = NONLINEARITIES[setting.nonlinearity],
      { uniform, normal } = makeRandom(setting.seed);
    const plain = setting.method === "langevin",
      readoutDeviation = exp(-0.5 * scaling * log(P));
    const { table, toNodes, levels } = shapeOf(nonlinearity, setting.slope),
      { empty, sweepOf } = makeRoom(6 * N * P + 17 * N + 6 * P + (table?.length ?? 0));
    const filled = (from) => {
      const into = empty(from.length);
      into.set(from);
      return into;
    };
    const u = filled(Float64Array.from({ length: N * P }, normal)),
      a = filled(Float64Array.from({ length: 3 * N }, normal));
    const labels = Uint8Array.from({ length: P }, (_, input) => (input < counts[0] ? 0 : input < P - counts[2] ? 1 : 2));
    const z = overlap > 0 ? empty(N * P) : u;
    const net = {
      ...{ setting, N, P, overlap, labels, uniform, normal, plain, u, a },
      targets: filled(Float64Array.from({ length: 3 * P }, (_, k) => setting.targets[3 * labels[(k / 3) | 0] + (k % 3)])),
      ...{ firsts: [0, counts[0], counts[0] + counts[1], P], table: table && filled(table), toNodes, levels },
      bounded: nonlinearity.bounded,
      readoutDeviation,
      outputScale: readoutDeviation * exp(-0.5 * (1 + scaling) * log(N)), // c
      stretch: plain ? 1 : Math.max(1, 0.5 / readoutDeviation), // units in which readouts move, as in sampling.HMC
      ...{ z, h: empty(N * P), residual: empty(3 * P), signs: new Int32Array(z.buffer, z.byteOffset, 2 * N * P) }, // h: features φ(z)
      ...{ p: empty(N * P), pa: empty(3 * N), pull: empty(N * P), ga: empty(3 * N), mean: empty(N) },
      ...{ values: empty(2 * N), slopes: empty(2 * N) }, // of the two inputs that are looked at; one after the other
      ...{ uStart: empty(N * P), aStart: empty(3 * N) },
      logStep: log(0.3), // of the step size over √T
      ...{ precision: 1, temperature: setting.startTemperature, squaredError: 0, fresh: false }, // fresh: as u and a are
      ...{ transitions: 0, gradients: 0, acceptance: 1, diverged: 0 },
    };
    return { ...net, pass: sweepOf(net) };
  }

  /** Momenta are kicked by the force at the position, then the position drifts; one pass over all inputs.

      Leaves residuals y − f and the squared error of the position before the drift, and its features where there is no drift. */
  function sweep(net, kick, drift) {
    const { P, u, p, pull, a, pa, ga, stretch, overlap } = net;
    if (overlap > 0) correlate(net, u, net.z);
    ga.fill(0);
    net.squaredError = 0;
    net.gradients++;
    if (net.pass !== null) net.squaredError = net.pass(net.precision, kick, drift);
    else for (let input = 0; input < P; input += 2) respond(net, input, kick, drift);
    if (overlap > 0) {
      correlate(net, pull, pull);
      for (let k = 0; k < u.length; k++) {
        const momentum = p[k] + kick * (pull[k] - u[k]);
        p[k] = momentum;
        u[k] += drift * momentum;
      }
    }
    for (let k = 0; k < a.length; k++) {
      pa[k] += kick * stretch * (ga[k] - a[k]);
      a[k] += drift * stretch * pa[k];
    }
  }

  const MIDDLE = REACH * NODES_PER_UNIT,
    LAST = 2 * MIDDLE - 1;

  /** Features, outputs and residuals of an input and the next; the error's force on readouts and preactivations.

      Two at a time, forward and backward, so that readouts are read once for both and what both need stays in the fastest
      cache. Where inputs do not act on each other their preactivations move at once. */
  function respond(net, input, kick, drift) {
    const { N, P, u, p, z, pull, a, ga, targets, residual, table, toNodes, outputScale, signs, levels } = net;
    const { values, slopes } = net,
      smooth = table !== null,
      alone = z === u,
      two = input + 1 < P,
      first = input * N,
      second = two ? first + N : first;
    let f00 = 0, f01 = 0, f02 = 0, f10 = 0, f11 = 0, f12 = 0; // prettier-ignore
    for (let i = 0; i < N; i++) {
      let v0, v1;
      if (smooth) {
        const x0 = z[first + i] * toNodes + MIDDLE,
          x1 = z[second + i] * toNodes + MIDDLE,
          k0 = x0 < LAST ? (x0 > 0 ? x0 | 0 : 0) : LAST,
          k1 = x1 < LAST ? (x1 > 0 ? x1 | 0 : 0) : LAST,
          d0 = x0 - k0,
          d1 = x1 - k1,
          at0 = k0 << 2,
          at1 = k1 << 2;
        const b0 = table[at0 + 1], c0 = table[at0 + 2], e0 = d0 * table[at0 + 3]; // prettier-ignore
        v0 = table[at0] + d0 * (b0 + d0 * (c0 + e0));
        slopes[i] = (b0 + d0 * (2 * c0 + 3 * e0)) * toNodes;
        const b1 = table[at1 + 1], c1 = table[at1 + 2], e1 = d1 * table[at1 + 3]; // prettier-ignore
        v1 = table[at1] + d1 * (b1 + d1 * (c1 + e1));
        slopes[N + i] = (b1 + d1 * (2 * c1 + 3 * e1)) * toNodes;
      } else {
        // by the sign's bit, as a processor would foretell a branch wrongly half of the time
        const s0 = levels[1 + (signs[2 * (first + i) + 1] >> 31)],
          s1 = levels[1 + (signs[2 * (second + i) + 1] >> 31)];
        v0 = s0 * z[first + i];
        v1 = s1 * z[second + i];
        slopes[i] = s0;
        slopes[N + i] = s1;
      }
      values[i] = v0;
      values[N + i] = v1;
      const a0 = a[i], a1 = a[N + i], a2 = a[2 * N + i]; // prettier-ignore
      f00 += a0 * v0;
      f01 += a1 * v0;
      f02 += a2 * v0;
      f10 += a0 * v1;
      f11 += a1 * v1;
      f12 += a2 * v1;
    }
    const at = 3 * input,
      next = two ? at + 3 : at,
      weight = two ? 1 : 0; // of the second input: of an odd number the last is alone
    const r00 = targets[at] - outputScale * f00,
      r01 = targets[at + 1] - outputScale * f01,
      r02 = targets[at + 2] - outputScale * f02,
      r10 = targets[next] - outputScale * f10,
      r11 = targets[next + 1] - outputScale * f11,
      r12 = targets[next + 2] - outputScale * f12;
    residual[at] = r00;
    residual[at + 1] = r01;
    residual[at + 2] = r02;
    residual[next] = r10;
    residual[next + 1] = r11;
    residual[next + 2] = r12;
    net.squaredError += r00 * r00 + r01 * r01 + r02 * r02 + weight * (r10 * r10 + r11 * r11 + r12 * r12);
    const factor = net.precision * outputScale,
      other = factor * weight;
    const e00 = factor * r00, e01 = factor * r01, e02 = factor * r02; // prettier-ignore
    const e10 = other * r10, e11 = other * r11, e12 = other * r12; // prettier-ignore
    for (let i = 0; i < N; i++) {
      const a0 = a[i], a1 = a[N + i], a2 = a[2 * N + i], v0 = values[i], v1 = values[N + i]; // prettier-ignore
      const force0 = slopes[i] * (a0 * e00 + a1 * e01 + a2 * e02),
        force1 = slopes[N + i] * (a0 * e10 + a1 * e11 + a2 * e12);
      ga[i] += v0 * e00 + v1 * e10;
      ga[N + i] += v0 * e01 + v1 * e11;
      ga[2 * N + i] += v0 * e02 + v1 * e12;
      if (alone) {
        const x0 = u[first + i],
          m0 = p[first + i] + kick * (force0 - x0);
        p[first + i] = m0;
        u[first + i] = x0 + drift * m0;
        if (two) {
          const x1 = u[second + i],
            m1 = p[second + i] + kick * (force1 - x1);
          p[second + i] = m1;
          u[second + i] = x1 + drift * m1;
        }
      } else {
        if (two) pull[second + i] = force1;
        pull[first + i] = force0;
      }
    }
    if (drift === 0) net.h.set(two ? values : values.subarray(0, N), first);
  }

  /** R: within each class √(1−ρ) x + (√(1−ρ+nρ) − √(1−ρ)) times the mean of x. */
  function correlate({ N, mean, overlap, firsts }, x, into) {
    const within = Math.sqrt(1 - overlap);
    for (let c = 0; c < 3; c++) {
      const from = firsts[c],
        to = firsts[c + 1],
        n = to - from,
        factor = (Math.sqrt(1 - overlap + n * overlap) - within) / n;
      mean.fill(0);
      for (let input = from; input < to; input++)
        for (let i = 0, at = input * N; i < N; i++, at++) mean[i] += x[at];
      for (let input = from; input < to; input++)
        for (let i = 0, at = input * N; i < N; i++, at++) into[at] = within * x[at] + factor * mean[i];
    }
  }

  /** Features, residuals and squared error, where they are not those of the present position. */
  function look(net) {
    if (!net.fresh) sweep(net, 0, 0);
    net.fresh = true;
  }

  function sumOfSquares(x) {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i] * x[i];
    return sum;
  }
  const energy = ({ precision, squaredError, u, a }) =>
    0.5 * (precision * squaredError + sumOfSquares(u) + sumOfSquares(a));
  const kinetic = ({ p, pa }) => 0.5 * (sumOfSquares(p) + sumOfSquares(pa));

  function drawMomenta({ p, pa, normal }) {
    for (let i = 0; i < p.length; i++) p[i] = normal();
    for (let i = 0; i < pa.length; i++) pa[i] = normal();
  }

  /** One HMC transition: fresh momenta, leapfrog, acceptance with probability min(1, e^{−ΔH}), which is returned. */
  function trajectory(net, step) {
    const { u, a, uStart, aStart, uniform } = net;
    drawMomenta(net);
    look(net);
    const before = energy(net) + kinetic(net),
      jitter = 0.5 + uniform(),
      count = Math.max(1, Math.ceil(jitter * Math.min(LENGTH / step, MOST_STEPS / 1.5)));
    uStart.set(u);
    aStart.set(a);
    sweep(net, 0.5 * step, step);
    for (let k = 1; k < count; k++) sweep(net, step, step);
    sweep(net, 0.5 * step, 0);
    const rise = energy(net) + kinetic(net) - before;
    if (!(rise < DIVERGENT)) net.diverged++;
    const probability = rise < DIVERGENT ? Math.min(1, exp(-rise)) : 0;
    net.fresh = uniform() < probability;
    if (!net.fresh) {
      u.set(uStart);
      a.set(aStart);
    }
    return probability;
  }

  /** Ten steps of plain Langevin dynamics, dt = ε²/2: nothing is accepted or rejected, so the law errs by O(dt). */
  function langevin(net, step) {
    for (let k = 0; k < 10; k++) {
      drawMomenta(net);
      sweep(net, 0.5 * step, step);
    }
    net.fresh = false;
    return 1;
  }

  /** Exact draw of all readouts given the features, as moves.gibbs: ã ~ N(Λ⁻¹Φ√βY, Λ⁻¹), Λ = 1 + ΦΦᵀ. */
  function gibbs(net) {
    look(net);
    const { N, P, h, a, targets, normal } = net,
      root = Math.sqrt(net.precision),
      scale = root * net.outputScale,
      tall = N <= P, // the smaller of two matrices is factorized
      size = tall ? N : P,
      matrix = new Float64Array(size * size),
      x = new Float64Array(size);
    if (tall) {
      const part = new Float64Array(4 * N); // features of four inputs, the matrix's rows being read and written once for all
      for (let input = 0; input < P; input += 4) {
        part.fill(0);
        part.set(h.subarray(input * N, Math.min(input + 4, P) * N));
        for (let i = 0; i < N; i++) {
          const v0 = scale * scale * part[i], v1 = scale * scale * part[N + i], v2 = scale * scale * part[2 * N + i], v3 = scale * scale * part[3 * N + i]; // prettier-ignore
          for (let j = 0, at = i * N; j <= i; j++)
            matrix[at + j] += v0 * part[j] + v1 * part[N + j] + v2 * part[2 * N + j] + v3 * part[3 * N + j];
        }
      }
    } else
      for (let m = 0; m < P; m++)
        for (let n = 0; n <= m; n++) {
          let sum = 0;
          for (let i = 0; i < N; i++) sum += h[m * N + i] * h[n * N + i];
          matrix[m * P + n] = scale * scale * sum;
        }
    for (let i = 0; i < size; i++) matrix[i * size + i] += 1;
    factorize(matrix, size);
    for (let r = 0; r < 3; r++) {
      const mine = a.subarray(r * N, r * N + N);
      if (tall) {
        x.fill(0);
        for (let input = 0; input < P; input++) {
          const y = scale * root * targets[3 * input + r];
          for (let i = 0; i < N; i++) x[i] += y * h[input * N + i];
        }
        forward(matrix, x, size);
        for (let i = 0; i < N; i++) x[i] += normal();
        backward(matrix, x, size);
        mine.set(x);
      } else {
        // Matheron's rule: a draw from the prior, corrected by what it misses
        for (let i = 0; i < N; i++) mine[i] = normal();
        for (let input = 0; input < P; input++) {
          let f = 0;
          for (let i = 0; i < N; i++) f += mine[i] * h[input * N + i];
          x[input] = root * targets[3 * input + r] - scale * f - normal();
        }
        forward(matrix, x, size);
        backward(matrix, x, size);
        for (let input = 0; input < P; input++)
          for (let i = 0; i < N; i++) mine[i] += scale * x[input] * h[input * N + i];
      }
    }
    net.fresh = false;
  }

  /** Rotates N/2 pairs of neurons, weights and readouts alike, one after another, as moves.rotations.

      Pairs that hold a large readout are tried more often; |a_i|² + |a_j|² does not change, so that is no bias. */
  function rotations(net) {
    look(net);
    const { N, P, u, z, h, a, residual, uniform, outputScale, table, toNodes, levels } = net;
    const shape = { table, toNodes, levels }, // small, as it is read from at every input
      z0 = new Float64Array(P),
      z1 = new Float64Array(P),
      next = new Float64Array(3 * P);
    for (let attempt = 0; attempt < N >> 1; attempt++) {
      let mass = sumOfSquares(a) * uniform(),
        i = 0;
      for (; i < N - 1; i++) {
        mass -= a[i] * a[i] + a[N + i] * a[N + i] + a[2 * N + i] * a[2 * N + i];
        if (mass <= 0) break;
      }
      const j = (i + 1 + Math.floor(uniform() * (N - 1))) % N,
        [cos, sin] = drawAngle(net);
      let change = 0;
      for (let input = 0; input < P; input++) {
        const at = input * N;
        z0[input] = cos * z[at + i] - sin * z[at + j];
        z1[input] = sin * z[at + i] + cos * z[at + j];
        const h0 = valueAt(shape, z0[input]),
          h1 = valueAt(shape, z1[input]);
        for (let r = 0; r < 3; r++) {
          const ai = a[r * N + i],
            aj = a[r * N + j],
            old = residual[3 * input + r];
          const shift =
            outputScale *
            ((cos * ai - sin * aj) * h0 + (sin * ai + cos * aj) * h1 - ai * h[at + i] - aj * h[at + j]);
          next[3 * input + r] = old - shift;
          change -= shift * (2 * old - shift);
        }
      }
      if (!(log(uniform()) < -0.5 * net.precision * change)) continue;
      residual.set(next);
      net.squaredError += change;
      for (let r = 0; r < 3; r++) turn(a, r * N + i, r * N + j, cos, sin);
      for (let input = 0, at = 0; input < P; input++, at += N) {
        turn(u, at + i, at + j, cos, sin);
        z[at + i] = z0[input];
        z[at + j] = z1[input];
        h[at + i] = valueAt(shape, z0[input]);
        h[at + j] = valueAt(shape, z1[input]);
      }
    }
  }

  /** Cosine and sine of an angle: uniform on the circle or, half of the time, of log-uniform size from 10⁻³ to 1. */
  function drawAngle({ uniform, normal }) {
    if (uniform() < 0.5) {
      const t = 0.5 * exp(log(1e-3) * uniform()) * (uniform() < 0.5 ? -1 : 1); // tangent of its half
      return [(1 - t * t) / (1 + t * t), (2 * t) / (1 + t * t)];
    }
    const x = normal(),
      y = normal(),
      r = Math.sqrt(x * x + y * y);
    return [x / r, y / r];
  }

  function turn(x, i, j, cos, sin) {
    const first = x[i],
      second = x[j];
    x[i] = cos * first - sin * second;
    x[j] = sin * first + cos * second;
  }

  function valueAt({ table, toNodes, levels }, preactivation) {
    if (table === null) return preactivation * levels[preactivation < 0 ? 0 : 1];
    const x = preactivation * toNodes + MIDDLE,
      k = x < LAST ? (x > 0 ? x | 0 : 0) : LAST,
      d = x - k;
    return table[4 * k] + d * (table[4 * k + 1] + d * (table[4 * k + 2] + d * table[4 * k + 3]));
  }

  /** One transition at a temperature, with its moves; `adapt` lets the step size follow the acceptance. */
  function advance(net, temperature, adapt = true) {
    const { scaling, nonlinearity } = net.setting,
      root = Math.min(1, Math.sqrt(temperature));
    net.temperature = temperature;
    net.precision = exp(scaling * log(net.N)) / temperature;
    net.transitions++;
    if (net.plain) langevin(net, LANGEVIN_STEP * root);
    else {
      net.acceptance = trajectory(net, exp(net.logStep) * root);
      if (adapt) net.logStep = Math.min(0.5, net.logStep + 0.1 * (net.acceptance - ACCEPTANCE));
      if (!net.bounded && nonlinearity !== "linear") rotations(net);
      if (net.transitions % GIBBS_EVERY === 0) gibbs(net);
    }
    look(net);
    if (!Number.isFinite(energy(net)))
      throw new Error(
        `the run diverged at T = ${Number(temperature.toPrecision(3))}, transition ${net.transitions}: its energy is no longer a number; take a higher T, a smaller slope or Hamiltonian Monte Carlo`,
      );
  }

  /** Lower triangle L of a positive definite matrix, in its place. */
  function factorize(matrix, n) {
    for (let i = 0; i < n; i++)
      for (let j = 0; j <= i; j++) {
        let sum = matrix[i * n + j];
        for (let k = 0, x = i * n, y = j * n; k < j; k++) sum -= matrix[x + k] * matrix[y + k];
        matrix[i * n + j] = i === j ? Math.sqrt(sum) : sum / matrix[j * n + j];
      }
  }

  function forward(lower, x, n) {
    for (let i = 0; i < n; i++) {
      let sum = x[i];
      for (let k = 0; k < i; k++) sum -= lower[i * n + k] * x[k];
      x[i] = sum / lower[i * n + i];
    }
  }

  function backward(lower, x, n) {
    for (let i = n - 1; i >= 0; i--) {
      x[i] /= lower[i * n + i];
      for (let k = 0; k < i; k++) x[k] -= lower[i * n + k] * x[i];
    }
  }

  /** Exchanges two neurons, all their weights: another network of just the same outputs, kernel and probability. */
  function swap({ N, P, u, z, h, a }, i, j) {
    for (const x of new Set([u, z, h]))
      for (let at = 0; at < N * P; at += N) [x[at + i], x[at + j]] = [x[at + j], x[at + i]];
    for (let at = 0; at < 3 * N; at += N) [a[at + i], a[at + j]] = [a[at + j], a[at + i]];
  }

  /** The present sample, a row for each neuron; readouts in the paper's units, σ_a ã.

      A class is in a neuron's code where its mean activation is above the middle of a bounded φ, or where the neuron has
      more than 1/√N of the population's squared activity, as coding.codes and coding.outliers have it. */
  function observe(net) {
    look(net);
    const { N, P, a, z, h, residual, targets, firsts, setting } = net,
      { bounded, middle } = NONLINEARITIES[setting.nonlinearity];
    /** Rows that share one store, so that a worker posts them as one. */
    const rows = (x) => {
      const all = new Float64Array(N * P);
      for (let i = 0, at = 0; i < N; i++) for (let m = 0; m < P; m++, at++) all[at] = x[m * N + i];
      return Array.from({ length: N }, (_, i) => all.subarray(i * P, i * P + P));
    };
    const activations = rows(h),
      means = [],
      squares = [];
    for (const row of activations) {
      const of = (value) => [0, 1, 2].map((c) => {
        let sum = 0;
        for (let m = firsts[c]; m < firsts[c + 1]; m++) sum += value(row[m]);
        return sum / (firsts[c + 1] - firsts[c]);
      }); // prettier-ignore
      means.push(of((x) => x));
      squares.push(of((x) => x * x));
    }
    const total = (values, c) => values.reduce((sum, row) => sum + row[c], 0),
      level = [0, 1, 2].map((c) => total(squares, c) / Math.sqrt(N));
    const neuronCodes = means.map((row, i) =>
      row.map((mean, c) => (bounded ? mean > middle : squares[i][c] > level[c]) ? 1 : 0).join(""),
    ); // prettier-ignore
    const codes = {};
    for (const code of neuronCodes) codes[code] = (codes[code] ?? 0) + 1;
    return {
      ...{ activations, means, neuronCodes, codes, preactivations: rows(z) },
      readouts: Array.from({ length: N }, (_, i) => [0, 1, 2].map((r) => net.readoutDeviation * a[r * N + i])),
      outputs: Array.from({ length: P }, (_, m) => [0, 1, 2].map((r) => targets[3 * m + r] - residual[3 * m + r])),
      /** (Σ m_i²)² / Σ m_i⁴ for each class: how many neurons carry it, as coding.class_participation. */
      participation: [0, 1, 2].map((c) => {
        const second = means.reduce((sum, row) => sum + row[c] ** 2, 0);
        return second ** 2 / means.reduce((sum, row) => sum + row[c] ** 4, 0);
      }),
      ...{ energy: energy(net), squaredError: net.squaredError, temperature: net.temperature },
      ...{ transitions: net.transitions, gradients: net.gradients, acceptance: net.acceptance },
    };
  }

  /** The features' kernel, and what a picture and a sentence of it need.

      {kernel, mean, reach, alongClasses}: P × P values; their mean; how far from it 97 % of them lie; the cosine, both centered,
      with the kernel that is one within a class. */
  function kernelOf(net) {
    look(net);
    const { N, P, h, labels } = net,
      values = new Float32Array(P * P),
      half = new Float32Array((P * (P + 1)) / 2), // each pair once
      sums = new Float64Array(4);
    let mean = 0,
      pairs = 0;
    for (let m = 0; m < P; m++)
      for (let n = 0; n <= m; n += 4) {
        // four sums at once, as one alone would wait for its last term; those beyond m are of no pair
        const x = m * N, y0 = n * N, y1 = Math.min(n + 1, m) * N, y2 = Math.min(n + 2, m) * N, y3 = Math.min(n + 3, m) * N; // prettier-ignore
        let s0 = 0, s1 = 0, s2 = 0, s3 = 0; // prettier-ignore
        for (let i = 0; i < N; i++) {
          const v = h[x + i];
          s0 += v * h[y0 + i];
          s1 += v * h[y1 + i];
          s2 += v * h[y2 + i];
          s3 += v * h[y3 + i];
        }
        sums[0] = s0;
        sums[1] = s1;
        sums[2] = s2;
        sums[3] = s3;
        for (let k = n; k < Math.min(n + 4, m + 1); k++) {
          values[m * P + k] = values[k * P + m] = half[pairs++] = sums[k - n] / N;
          mean += ((m === k ? 1 : 2) * sums[k - n]) / (N * P * P);
        }
      }
    half.sort();
    net.classes ??= centered(Float32Array.from({ length: P * P }, (_, k) => (labels[(k / P) | 0] === labels[k % P] ? 1 : 0)));
    return {
      kernel: values,
      mean,
      reach: Math.max(1e-9, half[Math.floor(0.97 * half.length)] - mean, mean - half[0]),
      alongClasses: cosine(centered(values), net.classes),
    };
  }

  /** Cosine between two kernels, each centered. */
  const alignment = (one, other) => cosine(centered(one), centered(other));

  function cosine(x, y) {
    let xy = 0;
    for (let k = 0; k < x.length; k++) xy += x[k] * y[k];
    return xy / Math.sqrt(sumOfSquares(x) * sumOfSquares(y));
  }

  function centered(values) {
    const P = Math.sqrt(values.length),
      mean = new Float64Array(P),
      result = new Float64Array(P * P);
    let all = 0;
    for (let m = 0; m < P; m++) {
      for (let n = 0; n < P; n++) mean[m] += values[m * P + n] / P;
      all += mean[m] / P;
    }
    for (let m = 0; m < P; m++) for (let n = 0; n < P; n++) result[m * P + n] = values[m * P + n] - mean[m] - mean[n] + all;
    return result;
  }

  /** Where the temperature is at a transition: falling evenly in its logarithm over 60 % of them, or constant. */
  function temperatureAt({ startTemperature, temperature, transitions }, k) {
    const left = Math.max(0, 1 - k / (COOLING * transitions));
    return temperature * exp(left * log(startTemperature / temperature));
  }

  /** A whole run: from the prior at `startTemperature` (1; the same as `temperature` for a quench) to the last sample.

      The step size adapts until the last fifth. Returns what `observe` does, with the mean acceptance of that fifth. */
  function run(options) {
    const net = makeNetwork(options),
      { transitions } = net.setting,
      settled = Math.floor(0.8 * transitions);
    let acceptance = 0;
    for (let k = 0; k < transitions; k++) {
      advance(net, temperatureAt(net.setting, k), k < settled);
      if (k >= settled) acceptance += net.acceptance / (transitions - settled);
    }
    return { ...observe(net), acceptance };
  }

  const steps = { trajectory, langevin, gibbs, rotations };
  return { NONLINEARITIES, makeNetwork, advance, swap, observe, kernelOf, alignment, temperatureAt, run, sweep, look, steps, energy, makeRandom, checked, exp, log }; // prettier-ignore
}

/** Draws a neuron: its weights, its response to the inputs, and its readouts, in a rectangle [left, top, width, height]. */
function drawNeuron(context, [left, top, width, height], { weights, activations, readouts, ends, overlap }, { text, positive, negative }) {
  const wide = Math.max(0.55 * width, width - 110),
    room = (height - 30) / 2,
    narrow = width < 230,
    short = (x) => String(Number(x.toPrecision(2))).replace("-", "−");
  [
    [overlap > 0 ? "preactivations" : "weights on the inputs", weights],
    ["response to them", activations],
  ].forEach(([name, values], k) => {
    const from = values.reduce((low, x) => Math.min(low, x), 0),
      to = values.reduce((most, x) => Math.max(most, x), 0),
      above = top + 13 + k * (room + 15),
      at = (x) => above + (room * (to - x)) / (to - from || 1);
    context.fillStyle = text;
    context.fillText(narrow ? name.split(" ")[0] : `${name}: ${short(from)} to ${short(to)}`, left, above - 3);
    values.forEach((x, m) => {
      context.fillStyle = x < 0 ? negative : positive;
      context.fillRect(left + (m / values.length) * wide, Math.min(at(0), at(x)), Math.max(1, wide / values.length - 0.6), Math.max(0.6, Math.abs(at(x) - at(0)))); // prettier-ignore
    });
    context.fillStyle = text;
    for (const end of ends) context.fillRect(left + (end / values.length) * wide, above, 0.7, room);
  });
  const most = readouts.reduce((top_, a) => Math.max(top_, Math.abs(a)), 1e-9),
    middle = left + wide + 12 + 0.5 * (width - wide - 12),
    tall = (height - 13) / 3;
  context.fillStyle = text;
  context.fillText("readouts", left + wide + 12, top + 10);
  readouts.forEach((a, r) => {
    const y = top + 13 + r * tall,
      long = (Math.abs(a) / most) * 0.5 * (width - wide - 14);
    context.fillStyle = a < 0 ? negative : positive;
    context.fillRect(a < 0 ? middle - long : middle, y + tall - 7, long, 5);
    context.fillStyle = text;
    context.fillText(`a${"₀₁₂"[r]} ${short(a)}`, left + wide + 12, y + tall - 9);
  });
  context.fillRect(middle, top + 13, 0.7, height - 13);
}

if (typeof module !== "undefined") module.exports = createLaboratory(require("./explorer.js").makeTask);
