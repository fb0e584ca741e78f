/* The theory of the toy task, solved where the page is read: three classes, three outputs, one hidden layer.

   In Node, require("./explorer.js") gives the solvers below; in the page, explorer-page.js runs createSolver in workers. Formulas and proofs stand in the docstrings of theory.sigmoidal, theory.relu and
   theory.linear, against which the tests hold every number. Arrays over classes c and outputs r are flat: 3 c + r. */

function createSolver() {
  "use strict";

  const CODES = ["000", "001", "010", "011", "100", "101", "110", "111"];
  const TOLERANCE = 1e-7; // on the largest entry of ⟨φ a⟩ + T t − y
  const RELU_TOLERANCE = 1e-8; // on its conditions, and on what a direction or readout may violate
  const MAX_STEPS = 100; // Newton steps per level
  const COARSE = { spacing: 1.3, cutoff: 18 }; // the lattice on the way, in units of σ_a; four digits
  const FINE = { spacing: 1, cutoff: 20 }; // at the end; quadrature error 2e-8 at most
  const MAX_CELLS = 4e7; // of the box around the lattice: beyond, the solve diverged
  const MAX_POINTS = 4e5;

  // --- the task ---------------------------------------------------------------------------------

  /** The checked task: inputs per class n_c, weights w_c = n_c / P, targets. Throws RangeError with what is allowed. */
  function makeTask({ ratios, numInputs, yPlus = 1, yMinus, temperature }) {
    if (!(Number.isInteger(numInputs) && numInputs >= 3 && numInputs <= 2000))
      throw new RangeError(
        `P: got ${numInputs}; allowed are whole numbers from 3, one input per class, to 2000`,
      );
    if (!(Array.isArray(ratios) && ratios.length === 3 && ratios.every((r) => r > 0 && r < 1)))
      throw new RangeError(`Class ratios: got ${ratios}; allowed are three numbers above 0 that sum to 1`);
    if (Math.abs(ratios[0] + ratios[1] + ratios[2] - 1) > 1e-6)
      throw new RangeError(`Class ratios: got a sum of ${ratios[0] + ratios[1] + ratios[2]}; allowed is 1`);
    for (const [name, value] of [
      ["y₊", yPlus],
      ["y₋", yMinus],
    ])
      if (!(Math.abs(value) <= 2))
        throw new RangeError(`${name}: got ${value}; allowed are numbers from −2 to 2`);
    if (yPlus === yMinus)
      throw new RangeError(
        `y₋: got ${yMinus}, the same as y₊; allowed is any other, or there is nothing to learn`,
      );
    if (!(temperature >= 1e-5 && temperature <= 10))
      throw new RangeError(
        `T: got ${temperature}; allowed are numbers from 0.00001 to 10 (T = 0 is a limit)`,
      );
    const counts = apportion(ratios, numInputs);
    const empty = counts.indexOf(0);
    if (empty >= 0)
      throw new RangeError(
        `Class ratios: they leave class ${empty} without an input at P = ${numInputs}; ` +
          "every class needs at least one",
      );
    const targets = Float64Array.from({ length: 9 }, (_, i) => (i % 4 ? yMinus : yPlus));
    return { counts, weights: counts.map((n) => n / numInputs), targets, numInputs, temperature };
  }

  /** Whole numbers nearest to ratios · total that sum to total (largest remainders), as tasks.toy has them. */
  function apportion(ratios, total) {
    const exact = ratios.map((r) => r * total);
    const counts = exact.map((x) => Math.floor(x + 1e-9));
    const missing = total - counts.reduce((a, b) => a + b);
    [0, 1, 2]
      .sort((a, b) => counts[a] - exact[a] - (counts[b] - exact[b]))
      .slice(0, missing)
      .forEach((c) => counts[c]++);
    return counts;
  }

  // --- one class and one field: L(s) = (1/n) log E exp(s Σ φ(z)) over its n inputs' preactivations -----------

  // φ − middle is odd, so L(s) − middle s is even: it is tabulated with four derivatives for s ≥ 0, finely to 40, where its
  // derivatives fall off like powers of 1/s, and at whole numbers beyond. Where inputs overlap it depends on n
  const KNEE = 40;
  const SHAPES = {
    sigmoidal: { odd: (z) => 0.5 * erf(0.5 * Math.sqrt(Math.PI) * z), top: 0.5, middle: 0.5 },
    tanh: { odd: Math.tanh, top: 1, middle: 0 },
  };

  /** Fields at which a table has its nodes. */
  function nodesOf(step, reach) {
    const fine = Math.round(KNEE / step);
    return { step, reach, fine, fields: Float64Array.from({ length: fine + 1 + reach - KNEE }, (_, k) => (k <= fine ? k * step : KNEE + k - fine)) }; // prettier-ignore
  }

  /** Rows of log E exp(s (φ − top)) + top s and its first four derivatives, from moments of φ under weights. */
  function cumulantRow(into, at, s, top, [total, m1, m2, m3, m4]) {
    const mean = m1 / total,
      second = m2 / total - mean ** 2,
      third = m3 / total - 3 * mean * (m2 / total) + 2 * mean ** 3,
      fourth = m4 / total - 4 * mean * (m3 / total) + 6 * mean ** 2 * (m2 / total) - 3 * mean ** 4 - 3 * second ** 2;
    into.set([top * s + Math.log(total), mean, second, third, fourth], at);
  }

  /** The table of inputs that do not overlap. */
  function makeTable({ odd, top, middle }, slope) {
    const size = 481,
      nodes = nodesOf(0.04, 2000),
      values = new Float64Array(5 * nodes.fields.length);
    const psi = Float64Array.from({ length: size }, (_, i) => odd(slope * (-12 + 0.05 * i))),
      prior = psi.map((_, i) => Math.log(0.05 / Math.sqrt(2 * Math.PI)) - 0.5 * (-12 + 0.05 * i) ** 2),
      weight = new Float64Array(size);
    nodes.fields.forEach((s, k) => {
      let total = 0,
        mean = 0,
        second = 0,
        third = 0,
        fourth = 0;
      for (let i = 0; i < size; i++) {
        weight[i] = Math.exp(s * (psi[i] - top) + prior[i]);
        total += weight[i];
        mean += weight[i] * psi[i];
      }
      mean /= total;
      for (let i = 0; i < size; i++) {
        const d = psi[i] - mean,
          w = weight[i] * d * d;
        second += w;
        third += w * d;
        fourth += w * d * d;
      }
      second /= total;
      values.set([top * s + Math.log(total), mean, second, third / total, fourth / total - 3 * second * second], 5 * k);
    });
    return { ...nodes, values, middle, lowest: middle - top, highest: middle + top };
  }

  const SHARED = Float64Array.from({ length: 257 }, (_, j) => (j - 128) / 14); // v, what inputs of a class share

  /** For each v the rows of log E_ξ exp(s φ(√ρ v + √(1−ρ) ξ)): what does not depend on n. */
  function makeConditional({ odd, top }, slope, overlap) {
    const step = 0.1,
      size = 261,
      deviation = Math.sqrt(1 - overlap),
      band = Math.ceil((8 * deviation) / step);
    const nodes = nodesOf(0.04, 400),
      width = SHARED.length,
      rows = new Float64Array(5 * width * nodes.fields.length);
    const psi = Float64Array.from({ length: size }, (_, i) => odd(slope * (i - 130) * step)),
      tilt = new Float64Array(size),
      first = new Int32Array(width),
      kernel = new Float64Array(width * (2 * band + 1));
    for (let j = 0; j < width; j++) {
      const center = Math.sqrt(overlap) * SHARED[j];
      first[j] = Math.min(Math.max(Math.round(center / step) + 130 - band, 0), size - 2 * band - 1);
      for (let i = 0; i <= 2 * band; i++) {
        const z = ((first[j] + i - 130) * step - center) / deviation;
        kernel[j * (2 * band + 1) + i] = ((step / deviation) * Math.exp(-0.5 * z * z)) / Math.sqrt(2 * Math.PI);
      }
    }
    nodes.fields.forEach((s, k) => {
      for (let i = 0; i < size; i++) tilt[i] = Math.exp(s * (psi[i] - top));
      for (let j = 0; j < width; j++) {
        let m0 = 0, m1 = 0, m2 = 0, m3 = 0, m4 = 0; // prettier-ignore
        for (let i = 0, at = j * (2 * band + 1), n = first[j]; i <= 2 * band; i++, at++, n++) {
          const w = kernel[at] * tilt[n],
            x = psi[n],
            wx = w * x,
            wxx = wx * x;
          m0 += w;
          m1 += wx;
          m2 += wxx;
          m3 += wxx * x;
          m4 += wxx * x * x;
        }
        cumulantRow(rows, 5 * (k * width + j), s, top, [m0, m1, m2, m3, m4]);
      }
    });
    return { ...nodes, rows };
  }

  /** The table of n inputs that overlap: v averaged out, by the law of total cumulance. */
  function makeClustered({ middle, top }, conditional, n) {
    const { rows } = conditional,
      nodes = nodesOf(0.01, 400),
      width = SHARED.length,
      values = new Float64Array(5 * nodes.fields.length),
      K = Array.from({ length: 5 }, () => new Float64Array(width)),
      weight = new Float64Array(width);
    nodes.fields.forEach((s, k) => {
      const near = s < KNEE ? Math.round(s / conditional.step) : conditional.fine + Math.round(s) - KNEE,
        d = s - conditional.fields[near];
      let highest = -Infinity;
      for (let j = 0; j < width; j++) {
        const at = 5 * (near * width + j),
          l = rows[at],
          m1 = rows[at + 1],
          m2 = rows[at + 2],
          m3 = rows[at + 3],
          m4 = rows[at + 4];
        K[0][j] = n * (l + d * (m1 + (d / 2) * (m2 + (d / 3) * (m3 + (d / 4) * m4)))) - 0.5 * SHARED[j] ** 2;
        K[1][j] = n * (m1 + d * (m2 + (d / 2) * (m3 + (d / 3) * m4)));
        K[2][j] = n * (m2 + d * (m3 + (d / 2) * m4));
        K[3][j] = n * (m3 + d * m4);
        K[4][j] = n * m4;
        highest = Math.max(highest, K[0][j]);
      }
      let total = 0;
      for (let j = 0; j < width; j++) total += weight[j] = Math.exp(K[0][j] - highest);
      const average = (of) => {
        let sum = 0;
        for (let j = 0; j < width; j++) if (weight[j] > 1e-18) sum += weight[j] * of(j);
        return sum / total;
      };
      const [a1, a2, a3, a4] = [1, 2, 3, 4].map((r) => average((j) => K[r][j])),
        e = (j) => K[1][j] - a1,
        f = (j) => K[2][j] - a2;
      const variance = average((j) => e(j) ** 2),
        mixed = average((j) => e(j) * f(j));
      const G = [
        highest + Math.log(total * (SHARED[1] - SHARED[0])) - 0.5 * Math.log(2 * Math.PI),
        a1,
        a2 + variance,
        a3 + 3 * mixed + average((j) => e(j) ** 3),
        a4 + 4 * average((j) => e(j) * (K[3][j] - a3)) + 3 * average((j) => f(j) ** 2) + 6 * average((j) => e(j) ** 2 * f(j)) + average((j) => e(j) ** 4) - 3 * variance ** 2, // prettier-ignore
      ];
      values.set(G.map((x) => x / n), 5 * k); // prettier-ignore
    });
    return { ...nodes, values, middle, lowest: middle - top, highest: middle + top };
  }

  const kept = new Map(); // tables, by what they are of, the one asked for last at the end; megabytes where inputs overlap

  function remembered(key, make) {
    const found = kept.get(key) ?? make();
    kept.delete(key);
    kept.set(key, found);
    if (kept.size > 12) kept.delete(kept.keys().next().value);
    return found;
  }
  const ORTHOGONAL = remembered("sigmoidal 1", () => makeTable(SHAPES.sigmoidal, 1));

  /** Tables of the three classes. */
  function tablesOf({ nonlinearity = "sigmoidal", slope = 1, overlap = 0 }, counts) {
    const shape = SHAPES[nonlinearity],
      key = `${nonlinearity} ${slope}`;
    if (!shape) throw new RangeError(`nonlinearity: got ${nonlinearity}; allowed are ${Object.keys(SHAPES).join(", ")}`);
    if (!(overlap >= 0 && overlap <= 0.95)) throw new RangeError(`ρ: got ${overlap}; allowed are numbers from 0 to 0.95`);
    if (overlap === 0) return counts.map(() => remembered(key, () => makeTable(shape, slope)));
    const conditional = remembered(`${key} ${overlap}`, () => makeConditional(shape, slope, overlap));
    return counts.map((n) => remembered(`${key} ${overlap} ${n}`, () => makeClustered(shape, conditional, n)));
  }

  /** erf to rounding: the series of e^{x²} erf x, and 1 − continued fraction beyond 3. */
  function erf(x) {
    const u = Math.abs(x);
    if (u > 6) return Math.sign(x);
    let value;
    if (u < 3) {
      let term = u,
        sum = u;
      for (let n = 1; Math.abs(term) > 1e-17 * sum; n++) {
        term *= (2 * u * u) / (2 * n + 1);
        sum += term;
      }
      value = (2 / Math.sqrt(Math.PI)) * Math.exp(-u * u) * sum;
    } else {
      let fraction = u;
      for (let n = 60; n > 0; n--) fraction = u + n / 2 / fraction;
      value = 1 - Math.exp(-u * u) / Math.sqrt(Math.PI) / fraction;
    }
    return Math.sign(x) * value;
  }

  const L = new Float64Array(3); // L, L', L'' at the last s asked for

  function cumulants(s, table) {
    if (table.rows) {
      grownCumulants(s, table);
      return;
    }
    const { values, step, reach, fine, middle } = table,
      x = Math.min(Math.abs(s), reach);
    let node, d;
    if (x < KNEE) {
      node = (x / step + 0.5) | 0;
      d = x - node * step;
    } else {
      node = (x + 0.5) | 0;
      d = x - node;
      node += fine - KNEE;
    }
    const at = 5 * node;
    const m1 = values[at + 1],
      m2 = values[at + 2],
      m3 = values[at + 3],
      m4 = values[at + 4];
    const slope = m1 + d * (m2 + (d / 2) * (m3 + (d / 3) * m4));
    L[0] = middle * s + values[at] + d * (m1 + (d / 2) * (m2 + (d / 3) * (m3 + (d / 4) * m4)));
    L[0] += (Math.abs(s) - x) * slope; // beyond the table by its tangent
    L[1] = middle + (s < 0 ? -slope : slope);
    L[2] = m2 + d * (m3 + (d / 2) * m4);
  }

  // --- the integral over readouts: lattice, value, gradient and Hessian of the dual -------------

  let visited = new Uint32Array(1 << 16),
    visit = 0;
  let stack = new Int32Array(1 << 12);
  const points = { count: 0, energy: null, a: null, index: null, mean: null, variance: null };
  grow(1 << 13);

  function grow(size) {
    for (const [name, width] of [
      ["energy", 1],
      ["a", 3],
      ["index", 3],
      ["mean", 3],
      ["variance", 3],
    ]) {
      const wider = new (name === "index" ? Int32Array : Float64Array)(size * width);
      if (points[name]) wider.set(points[name]);
      points[name] = wider;
    }
  }

  /** Readouts from which every maximum is reached: those that answer to classes at three levels each. */
  function seeds(task, t, numSteps) {
    const found = [],
      { lowest, highest } = task.tables[0];
    for (let pattern = 0; pattern < 27; pattern++) {
      const level = [pattern % 3, ((pattern / 3) | 0) % 3, (pattern / 9) | 0];
      const a = [0, 0, 0];
      for (let c = 0; c < 3; c++)
        for (let r = 0; r < 3; r++) a[r] += (lowest + 0.5 * level[c] * (highest - lowest)) * task.weights[c] * t[3 * c + r];
      climb(task, t, a, numSteps);
      found.push(a);
    }
    return found;
  }

  /** Uphill on E by a ← Σ_c w_c t_c L'(a·t_c), which never lowers it; in place. */
  function climb(task, t, a, numSteps, still = 1e-12) {
    for (let step = 0; step < numSteps; step++) {
      let x = 0,
        y = 0,
        z = 0;
      for (let c = 0; c < 3; c++) {
        cumulants(a[0] * t[3 * c] + a[1] * t[3 * c + 1] + a[2] * t[3 * c + 2], task.tables[c]);
        const pull = task.weights[c] * L[1];
        x += pull * t[3 * c];
        y += pull * t[3 * c + 1];
        z += pull * t[3 * c + 2];
      }
      const moved = Math.abs(x - a[0]) + Math.abs(y - a[1]) + Math.abs(z - a[2]);
      a[0] = x;
      a[1] = y;
      a[2] = z;
      if (moved < still) return;
    }
  }

  function energyAt(task, t, a) {
    let energy = -0.5 * (a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    for (let c = 0; c < 3; c++) {
      cumulants(a[0] * t[3 * c] + a[1] * t[3 * c + 1] + a[2] * t[3 * c + 2], task.tables[c]);
      energy += task.weights[c] * L[0];
    }
    return energy;
  }

  /** Fills `points` with the lattice points where e^{P E} matters, spreading outwards from the maxima.

      The lattice stands at whole multiples of spacing σ_a (plus an offset), so that it does not move with t.
      Returns the highest P E, or NaN where the readouts ran away. */
  function fillLattice(task, t, { spacing, cutoff, offset = 0, box }) {
    const P = task.numInputs,
      step = spacing / Math.sqrt(P),
      margin = Math.ceil(Math.sqrt(2 * cutoff) / spacing) + 2;
    const low = [0, 0, 0],
      size = [0, 0, 0],
      { lowest: least, highest: most } = task.tables[0];
    for (let r = 0; r < 3; r++) {
      // readouts lie where P puts ⟨a | z⟩, ± some σ_a
      let bottom = 0,
        top = 0;
      for (let c = 0; c < 3; c++) {
        const end = task.weights[c] * t[3 * c + r];
        top += Math.max(least * end, most * end);
        bottom += Math.min(least * end, most * end);
      }
      if (box) [bottom, top] = [box.low[r], box.high[r]]; // or along rays
      low[r] = Math.floor(bottom / step) - margin;
      size[r] = Math.ceil(top / step) + margin - low[r] + 1;
    }
    const [sx, sy, sz] = size;
    if (!(sx * sy * sz < MAX_CELLS)) return NaN;
    if (visited.length < sx * sy * sz) {
      visited = new Uint32Array(sx * sy * sz);
      visit = 0;
    }
    visit++;
    let depth = 0,
      highest = -Infinity;
    for (const a of seeds(task, t, 40)) {
      highest = Math.max(highest, P * energyAt(task, t, a));
      const at =
        Math.round(a[0] / step - offset) -
        low[0] +
        sx * (Math.round(a[1] / step - offset) - low[1] + sy * (Math.round(a[2] / step - offset) - low[2]));
      if (visited[at] !== visit) {
        visited[at] = visit;
        stack[depth++] = at;
      }
    }
    points.count = 0;
    const w0 = P * task.weights[0],
      w1 = P * task.weights[1],
      w2 = P * task.weights[2];
    const [t00, t01, t02, t10, t11, t12, t20, t21, t22] = t,
      [b0, b1, b2] = task.tables;
    while (depth > 0) {
      const at = stack[--depth];
      const i = at % sx,
        rest = (at / sx) | 0,
        j = rest % sy,
        k = (rest / sy) | 0;
      const x = (i + low[0] + offset) * step,
        y = (j + low[1] + offset) * step,
        z = (k + low[2] + offset) * step;
      const n = points.count,
        p = 3 * n;
      cumulants(x * t00 + y * t01 + z * t02, b0);
      let energy = w0 * L[0] - 0.5 * P * (x * x + y * y + z * z);
      points.mean[p] = L[1];
      points.variance[p] = L[2];
      cumulants(x * t10 + y * t11 + z * t12, b1);
      energy += w1 * L[0];
      points.mean[p + 1] = L[1];
      points.variance[p + 1] = L[2];
      cumulants(x * t20 + y * t21 + z * t22, b2);
      energy += w2 * L[0];
      points.mean[p + 2] = L[1];
      points.variance[p + 2] = L[2];
      if (energy < highest - cutoff) continue;
      if (energy > highest) highest = energy;
      points.energy[n] = energy;
      points.a[p] = x;
      points.a[p + 1] = y;
      points.a[p + 2] = z;
      points.index[p] = i + low[0];
      points.index[p + 1] = j + low[1];
      points.index[p + 2] = k + low[2];
      points.count = n + 1;
      if (n + 2 > points.energy.length) {
        if (n > MAX_POINTS) return NaN;
        grow(2 * points.energy.length);
      }
      if (depth + 6 > stack.length) {
        const longer = new Int32Array(2 * stack.length);
        longer.set(stack);
        stack = longer;
      }
      if (i > 0 && visited[at - 1] !== visit) {
        visited[at - 1] = visit;
        stack[depth++] = at - 1;
      }
      if (i + 1 < sx && visited[at + 1] !== visit) {
        visited[at + 1] = visit;
        stack[depth++] = at + 1;
      }
      if (j > 0 && visited[at - sx] !== visit) {
        visited[at - sx] = visit;
        stack[depth++] = at - sx;
      }
      if (j + 1 < sy && visited[at + sx] !== visit) {
        visited[at + sx] = visit;
        stack[depth++] = at + sx;
      }
      const layer = sx * sy;
      if (k > 0 && visited[at - layer] !== visit) {
        visited[at - layer] = visit;
        stack[depth++] = at - layer;
      }
      if (k + 1 < sz && visited[at + layer] !== visit) {
        visited[at + layer] = visit;
        stack[depth++] = at + layer;
      }
    }
    return highest;
  }

  /** D(t)/P, its gradient (9) and Hessian (9 × 9), and the largest residual |⟨φ a⟩ + T t − y|. */
  function dual(task, t, lattice) {
    const P = task.numInputs,
      T = task.temperature,
      w = task.weights,
      highest = fillLattice(task, t, lattice);
    if (!Number.isFinite(highest) || points.count === 0) return { value: Infinity };
    // sums of v_c a_r, of v_c v_c' a_r a_q and of v'_c a_r a_q, where v = L' and v' = L''
    let total = 0;
    const first = new Float64Array(9),
      second = new Float64Array(36),
      within = new Float64Array(18);
    const { energy, a, mean, variance } = points;
    for (let n = 0, p = 0; n < points.count; n++, p += 3) {
      const weight = Math.exp(energy[n] - highest),
        x = a[p],
        y = a[p + 1],
        z = a[p + 2];
      const v0 = mean[p],
        v1 = mean[p + 1],
        v2 = mean[p + 2];
      const wx = weight * x,
        wy = weight * y,
        wz = weight * z;
      total += weight;
      first[0] += v0 * wx;
      first[1] += v0 * wy;
      first[2] += v0 * wz;
      first[3] += v1 * wx;
      first[4] += v1 * wy;
      first[5] += v1 * wz;
      first[6] += v2 * wx;
      first[7] += v2 * wy;
      first[8] += v2 * wz;
      const xx = wx * x,
        xy = wx * y,
        xz = wx * z,
        yy = wy * y,
        yz = wy * z,
        zz = wz * z;
      for (let pair = 0; pair < 6; pair++) {
        const vv =
          pair < 3
            ? v0 * (pair === 0 ? v0 : pair === 1 ? v1 : v2)
            : pair < 5
              ? v1 * (pair === 3 ? v1 : v2)
              : v2 * v2;
        const q = 6 * pair;
        second[q] += vv * xx;
        second[q + 1] += vv * xy;
        second[q + 2] += vv * xz;
        second[q + 3] += vv * yy;
        second[q + 4] += vv * yz;
        second[q + 5] += vv * zz;
      }
      for (let c = 0; c < 3; c++) {
        const v = variance[p + c],
          q = 6 * c;
        within[q] += v * xx;
        within[q + 1] += v * xy;
        within[q + 2] += v * xz;
        within[q + 3] += v * yy;
        within[q + 4] += v * yz;
        within[q + 5] += v * zz;
      }
    }
    let value = (highest + Math.log(total) + 3 * Math.log(lattice.spacing / Math.sqrt(2 * Math.PI))) / P,
      residual = 0;
    const gradient = new Float64Array(9),
      hessian = new Float64Array(81);
    for (let i = 0; i < 9; i++) {
      const c = (i / 3) | 0,
        error = first[i] / total - task.targets[i] + T * t[i];
      gradient[i] = w[c] * error;
      residual = Math.max(residual, Math.abs(error));
      value += w[c] * t[i] * (0.5 * T * t[i] - task.targets[i]);
      for (let j = 0; j <= i; j++) {
        const b = (j / 3) | 0,
          at = PAIR[3 * (i % 3) + (j % 3)];
        let entry =
          (P * w[c] * w[b] * (second[6 * PAIR[3 * c + b] + at] - (first[i] * first[j]) / total)) / total;
        if (b === c) entry += (w[c] * within[6 * c + at]) / total;
        if (i === j) entry += w[c] * T;
        hessian[9 * i + j] = hessian[9 * j + i] = entry;
      }
    }
    return { value, gradient, hessian, residual };
  }

  const dualOf = (task, lattice) => (t) => dual(task, t, lattice);

  const PAIR = [0, 1, 2, 1, 3, 4, 2, 4, 5]; // place of (i, j) among the six pairs of a symmetric 3 × 3 matrix

  // --- Newton's method --------------------------------------------------------------------------

  /** Damped Newton descent from t on a function `at(t, here)`, `here` being its value where a step begins.

      Stops at the tolerance, or where no step leads down. */
  function newton(at, start, tolerance) {
    let t = start,
      now = at(t),
      numSteps = 0;
    while (now.residual > tolerance && numSteps < MAX_STEPS) {
      const direction = descent(now.hessian, now.gradient);
      let slope = 0,
        largest = 0,
        size = 0;
      for (let i = 0; i < t.length; i++) {
        slope += direction[i] * now.gradient[i];
        largest = Math.max(largest, Math.abs(direction[i]));
        size = Math.max(size, Math.abs(t[i]));
      }
      let length = Math.min(1, (0.5 * (1 + size)) / largest),
        next = null,
        moved = null;
      for (; length > 1e-8; length /= 2, next = null) {
        moved = t.map((value, i) => value + length * direction[i]);
        next = at(moved, now);
        if (next.value <= now.value + 1e-4 * length * slope + 1e-12 * Math.abs(now.value)) break;
      }
      if (next === null) break;
      t = moved;
      now = next;
      numSteps++;
    }
    return { t, numSteps, residual: now.residual ?? Infinity };
  }

  /** −H⁻¹ g, by Cholesky; a ridge where H is not positive definite to rounding. */
  function descent(hessian, gradient) {
    const n = gradient.length;
    for (let ridge = 0; ; ridge = Math.max(10 * ridge, 1e-14)) {
      const matrix = hessian.slice();
      for (let i = 0; i < n; i++) matrix[n * i + i] *= 1 + ridge;
      const solution = choleskySolve(matrix, gradient, n);
      if (solution) return solution.map((x) => -x);
      if (!(ridge < 1e6)) return gradient.map((x) => -x);
    }
  }

  /** Solves a symmetric positive definite system; overwrites the matrix, null where it is not positive definite. */
  function choleskySolve(matrix, right, n) {
    for (let j = 0; j < n; j++) {
      for (let i = j; i < n; i++) {
        let sum = matrix[n * i + j];
        for (let k = 0; k < j; k++) sum -= matrix[n * i + k] * matrix[n * j + k];
        if (i === j) {
          if (!(sum > 0)) return null;
          matrix[n * j + j] = Math.sqrt(sum);
        } else matrix[n * i + j] = sum / matrix[n * j + j];
      }
    }
    const x = Float64Array.from(right);
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < i; k++) x[i] -= matrix[n * i + k] * x[k];
      x[i] /= matrix[n * i + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) x[i] -= matrix[n * k + i] * x[k];
      x[i] /= matrix[n * i + i];
    }
    return x;
  }

  /** A network of bounded φ, sigmoidal or tanh: the coding scheme at one task, overlap of inputs and temperature.

      start: a solution of a neighboring task, to go on from; without it, or where that fails, the landscape is
      sharpened in steps from P = 8. Returns occupancies, readouts (the maxima) and activations per code that
      occurs, the dual field t (3 × 3), training error Σ_c w_c |T t_c|², effective number of codes, the readouts'
      marginal densities, residual and converged. Throws RangeError for a task that is not allowed. */
  function solve(options) {
    const task = makeTask(options),
      started = clock();
    task.tables = tablesOf(options, task.counts);
    let t = null,
      numSteps = 0,
      residual = Infinity;
    const finish = (from) => {
      const rough = newton(dualOf(task, COARSE), from, 1e-5);
      const done = rough.residual < 1e-2 ? newton(dualOf(task, FINE), rough.t, TOLERANCE) : rough;
      numSteps += rough.numSteps + done.numSteps;
      t = done.t;
      residual = done.residual;
    };
    if (options.start) finish(Float64Array.from(options.start.field.flat()));
    if (!(residual <= TOLERANCE)) {
      let from = new Float64Array(9);
      for (let level = 8; level < task.numInputs; level *= 4) {
        const rough = { ...task, numInputs: level, temperature: Math.max(task.temperature, 1e-2) };
        const found = newton(dualOf(rough, COARSE), from, 1e-2);
        from = found.t;
        numSteps += found.numSteps;
      }
      finish(from);
    }
    const converged = residual <= TOLERANCE;
    const found = { field: rowsOf(t), residual, numSteps, converged, counts: task.counts };
    if (converged) Object.assign(found, describe(task, t), { trainingError: trainingError(task, t) });
    return Object.assign(found, { milliseconds: clock() - started });
  }

  /** A field of nine numbers as a row for each class. */
  const rowsOf = (t) => [0, 1, 2].map((c) => Array.from(t.slice(3 * c, 3 * c + 3)));

  const clock = () => (typeof performance === "undefined" ? Date.now() : performance.now());

  function trainingError(task, t) {
    return t.reduce((sum, value, i) => sum + task.weights[(i / 3) | 0] * (task.temperature * value) ** 2, 0);
  }

  // --- what the solution looks like -------------------------------------------------------------

  /** Codes with their shares, from the lattice that the last evaluation of the dual left in `points`. */
  function describe(task, t) {
    const sigma = 1 / Math.sqrt(task.numInputs),
      cell = 2 * FINE.spacing * sigma;
    let highest = -Infinity,
      total = 0;
    for (let n = 0; n < points.count; n++) highest = Math.max(highest, points.energy[n]);
    // Neighboring points share their fate: cells of 2 × 2 × 2 lattice points climb together
    const cells = new Map(),
      owner = new Array(points.count),
      weight = new Float64Array(points.count);
    for (let n = 0, p = 0; n < points.count; n++, p += 3) {
      total += weight[n] = Math.exp(points.energy[n] - highest);
      const i = points.index[p] >> 1,
        j = points.index[p + 1] >> 1,
        k = points.index[p + 2] >> 1;
      const key = ((i + 512) << 20) | ((j + 512) << 10) | (k + 512);
      let found = cells.get(key);
      if (found === undefined) {
        found = { a: [(i + 0.5) * cell, (j + 0.5) * cell, (k + 0.5) * cell], peaks: null };
        climb(task, t, found.a, 30, 1e-3 * sigma);
        cells.set(key, found);
      }
      owner[n] = found;
    }
    const starts = [];
    for (const a of [...seeds(task, t, 10), ...Array.from(cells.values(), (place) => place.a)])
      if (!starts.some((b) => distance(a, b) < 0.3 * sigma)) starts.push(a);
    const peaks = findMaxima(task, t, starts).map((a) => ({ a, mass: 0, mean: [0, 0, 0] }));
    if (!peaks.length) throw new Error("no maximum of the readout posterior was found");
    for (const place of cells.values()) place.peaks = nearest(peaks, place.a, sigma);
    for (let n = 0, p = 0; n < points.count; n++, p += 3) {
      const of = owner[n].peaks,
        share = weight[n] / total / of.length;
      for (const peak of of) {
        peak.mass += share;
        for (let c = 0; c < 3; c++) peak.mean[c] += share * points.mean[p + c];
      }
    }
    return { ...byCode(task, t, peaks), densities: marginals(task, t) };
  }

  /** The peaks nearest to a place: one, or both where it lies on the ridge between them. */
  function nearest(peaks, a, sigma) {
    const away = peaks.map((peak) => distance(a, peak.a)),
      least = Math.min(...away);
    return peaks.filter((_, k) => away[k] < least + 1e-6 * sigma);
  }

  function byCode(task, t, peaks) {
    const occupancies = Object.fromEntries(CODES.map((code) => [code, 0])),
      readouts = {},
      activations = {};
    peaks.sort((one, other) => other.mass - one.mass);
    for (const { a, mass, mean } of peaks) {
      if (mass < 1e-6) continue;
      const code = [0, 1, 2]
        .map((c) => (a[0] * t[3 * c] + a[1] * t[3 * c + 1] + a[2] * t[3 * c + 2] > 0 ? 1 : 0))
        .join("");
      readouts[code] ??= a;
      activations[code] = mean.map(
        (sum, c) => ((activations[code]?.[c] ?? 0) * occupancies[code] + sum) / (occupancies[code] + mass),
      );
      occupancies[code] += mass;
    }
    const shares = Object.values(occupancies).filter((p) => p > 0);
    return {
      occupancies,
      readouts,
      activations,
      numCodes: peaks.filter(({ mass }) => mass >= 0.01).length,
      effectiveCodes: Math.exp(-shares.reduce((sum, p) => sum + p * Math.log(p), 0)),
    };
  }

  const distance = (a, b) => Math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2);

  /** Distinct maxima of E uphill from the starts: Newton steps where they climb, the fixed-point map elsewhere. */
  function findMaxima(task, t, starts) {
    const found = [],
      w = task.weights,
      sigma = 1 / Math.sqrt(task.numInputs);
    for (const start of starts) {
      const a = start.slice();
      let step = Infinity,
        stiffness = null;
      for (let round = 0; round < 200 && step > 1e-11; round++) {
        const pull = [-a[0], -a[1], -a[2]];
        stiffness = new Float64Array([1, 0, 0, 0, 1, 0, 0, 0, 1]);
        for (let c = 0; c < 3; c++) {
          cumulants(a[0] * t[3 * c] + a[1] * t[3 * c + 1] + a[2] * t[3 * c + 2], task.tables[c]);
          for (let r = 0; r < 3; r++) {
            pull[r] += w[c] * L[1] * t[3 * c + r];
            for (let q = 0; q < 3; q++) stiffness[3 * r + q] -= w[c] * L[2] * t[3 * c + r] * t[3 * c + q];
          }
        }
        let move = choleskySolve(stiffness, pull, 3);
        if (move && Math.hypot(...move) > 1e-6) {
          // closer in, E is flat to rounding
          const there = energyAt(
            task,
            t,
            a.map((x, r) => x + move[r]),
          );
          if (
            !(
              there >
              energyAt(
                task,
                t,
                a.map((x, r) => x + pull[r]),
              )
            )
          )
            move = null;
        }
        step = Math.hypot(...pull);
        for (let r = 0; r < 3; r++) a[r] += move ? move[r] : pull[r];
        if (!move) stiffness = null;
      }
      if (step > 1e-8 || !stiffness) continue; // not settled, or no maximum
      if (!found.some((b) => distance(a, b) < 1e-4 * sigma)) found.push(a);
    }
    return found;
  }

  /** Densities of the three readout components, half a σ_a apart: [{start, step, values}, …].

      From the lattice in `points` and, halfway between its nodes, from the same lattice moved by half its spacing
      along all three axes, which then stands in `points`. */
  function marginals(task, t) {
    const step = (0.5 * FINE.spacing) / Math.sqrt(task.numInputs),
      low = [Infinity, Infinity, Infinity],
      high = [-Infinity, -Infinity, -Infinity];
    for (let n = 0; n < 3 * points.count; n++) {
      low[n % 3] = Math.min(low[n % 3], 2 * points.index[n] - 2);
      high[n % 3] = Math.max(high[n % 3], 2 * points.index[n] + 2);
    }
    const found = low.map((first, r) => new Float64Array(high[r] - first + 1));
    for (const half of [0, 1]) {
      if (half) fillLattice(task, t, { ...FINE, offset: 0.5 });
      let total = 0;
      const weight = new Float64Array(points.count),
        highest = points.energy.subarray(0, points.count).reduce((a, b) => Math.max(a, b));
      for (let n = 0; n < points.count; n++) total += weight[n] = Math.exp(points.energy[n] - highest);
      for (let n = 0; n < 3 * points.count; n++)
        // beyond the ends, where the moved lattice may reach, nothing is kept
        found[n % 3][2 * points.index[n] + half - low[n % 3]] += weight[(n / 3) | 0] / total / (2 * step);
    }
    return found.map((values, r) => ({ start: low[r] * step, step, values: Array.from(values) }));
  }

  /** A density of `marginals` at a: cubic in its logarithm, exact for Gaussian peaks. */
  function densityAt({ start, step, values }, a) {
    const x = (a - start) / step,
      i = Math.floor(x),
      u = x - i;
    if (x < 0 || x > values.length - 1) return 0;
    const log = (k) => Math.log(Math.max(values[Math.min(Math.max(k, 0), values.length - 1)], 1e-12));
    const [before, left, right, after] = [log(i - 1), log(i), log(i + 1), log(i + 2)];
    const slope = (right - before) / 2,
      next = (after - left) / 2,
      rise = right - left;
    return Math.exp(left + u * (slope + u * (3 * rise - 2 * slope - next + u * (slope + next - 2 * rise))));
  }

  // --- the linear network -----------------------------------------------------------------------

  /** The linear network of the same task: readouts a ~ N(0, U), mean activations κ_c t_c·a, κ_c = 1 − ρ + n_c ρ.

      Exact in T and P at infinite width: U⁻¹ = P − Σ_c n_c κ_c t_c t_cᵀ and (T + κ_c U) t_c = y_c, where the dual
      D = −½ log |U⁻¹/P| + Σ_c n_c (½ T |t_c|² − t_c·y_c) is least. */
  function solveLinear(options) {
    const task = makeTask(options),
      { overlap = 0 } = options,
      { targets, weights: w, counts, temperature: T, numInputs: P } = task,
      stiffness = counts.map((n) => 1 - overlap + n * overlap);

    function covariance(t) {
      const inverse = Float64Array.from({ length: 9 }, (_, i) => (i % 4 ? 0 : P));
      for (let i = 0; i < 9; i++)
        for (let c = 0; c < 3; c++) inverse[i] -= counts[c] * stiffness[c] * t[3 * c + ((i / 3) | 0)] * t[3 * c + (i % 3)];
      const { values, vectors } = eigen(inverse);
      return values[0] > 0 ? { spread: values.map((x) => 1 / x).reverse(), vectors: vectors.reverse() } : null;
    }
    const full = ({ spread, vectors }) =>
      [0, 1, 2].map((r) => [0, 1, 2].map((q) => spread.reduce((sum, u, k) => sum + u * vectors[k][r] * vectors[k][q], 0)));

    const at = (t) => {
      const found = covariance(t);
      if (!found) return { value: Infinity };
      const U = full(found),
        fields = rowsOf(t),
        moved = fields.map((field) => U.map((row) => dot(row, field))),
        gradient = new Float64Array(9),
        hessian = new Float64Array(81);
      let value = found.spread.reduce((sum, u) => sum + Math.log(P * u), 0) / (2 * P),
        residual = 0;
      for (let i = 0; i < 9; i++) {
        const c = (i / 3) | 0,
          error = stiffness[c] * moved[c][i % 3] - targets[i] + T * t[i];
        gradient[i] = w[c] * error;
        residual = Math.max(residual, Math.abs(error));
        value += w[c] * t[i] * (0.5 * T * t[i] - targets[i]);
        for (let j = 0; j < 9; j++) {
          const d = (j / 3) | 0,
            [r, q] = [i % 3, j % 3],
            pair = w[c] * stiffness[c] * counts[d] * stiffness[d];
          hessian[9 * i + j] = pair * (U[r][q] * dot(fields[d], moved[c]) + moved[d][r] * moved[c][q]);
          if (c === d) hessian[9 * i + j] += w[c] * (stiffness[c] * U[r][q] + (r === q ? T : 0));
        }
      }
      return { value, gradient, hessian, residual };
    };
    const { t, residual } = newton(at, new Float64Array(9), 1e-11),
      found = covariance(t);
    return {
      ...found,
      readoutCovariance: full(found),
      field: rowsOf(t),
      stiffness,
      residual,
      trainingError: trainingError(task, t),
    };
  }

  /** Eigenvalues, ascending, and unit eigenvectors of a symmetric 3 × 3 matrix, by Jacobi rotations. */
  function eigen(matrix) {
    const a = Float64Array.from(matrix),
      v = [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
      ];
    for (let sweep = 0; sweep < 30; sweep++)
      for (const [p, q] of [
        [0, 1],
        [0, 2],
        [1, 2],
      ]) {
        if (Math.abs(a[3 * p + q]) < 1e-300) continue;
        const angle = 0.5 * Math.atan2(2 * a[3 * p + q], a[3 * q + q] - a[3 * p + p]),
          c = Math.cos(angle),
          s = Math.sin(angle);
        for (let k = 0; k < 3; k++)
          [a[3 * k + p], a[3 * k + q]] = [
            c * a[3 * k + p] - s * a[3 * k + q],
            s * a[3 * k + p] + c * a[3 * k + q],
          ];
        for (let k = 0; k < 3; k++)
          [a[3 * p + k], a[3 * q + k]] = [
            c * a[3 * p + k] - s * a[3 * q + k],
            s * a[3 * p + k] + c * a[3 * q + k],
          ];
        for (let k = 0; k < 3; k++)
          [v[p][k], v[q][k]] = [c * v[p][k] - s * v[q][k], s * v[p][k] + c * v[q][k]];
      }
    const order = [0, 1, 2].sort((i, j) => a[4 * i] - a[4 * j]);
    return { values: order.map((i) => a[4 * i]), vectors: order.map((i) => v[i]) };
  }

  // --- the ReLU network -------------------------------------------------------------------------

  const dot = (a, b) => a.reduce((sum, x, r) => sum + x * b[r], 0);
  const unit = (a) => {
    const size = Math.hypot(...a);
    return size > 1e-300 ? a.map((x) => x / size) : a;
  };

  /** Directions spread evenly over the sphere, where the constraint h(â) ≤ 1 is first watched. */
  const SPHERE = Array.from({ length: 120 }, (_, k) => {
    const z = 1 - (2 * k + 1) / 120,
      angle = k * Math.PI * (3 - Math.sqrt(5)),
      radius = Math.sqrt(1 - z * z);
    return [radius * Math.cos(angle), radius * Math.sin(angle), z];
  });

  /** log g(s), g'/g and (log g)'' for g(s) = ½ + e^{s²/2} Φ(s). */
  function reluCumulants(s) {
    const x = Math.abs(s) / Math.SQRT2,
      tail = 0.5 * scaledErfc(x); // e^{s²/2} Φ(−|s|)
    const log = s < 0 ? Math.log(tail) : (s * s) / 2 + Math.log1p(-tail * Math.exp((-s * s) / 2));
    const logG = Math.max(log, -Math.LN2) + Math.log1p(Math.exp(-Math.abs(log + Math.LN2)));
    const active = Math.exp(log - logG),
      mean = s * active + Math.exp(-logG) / Math.sqrt(2 * Math.PI);
    return [logG, mean, s > 12 ? 1 : active + s * mean - mean * mean];
  }

  /** The same for softplus, by quadrature; under e^{s φ} z moves up to s. */
  function softplusCumulants(s) {
    let highest = -Infinity,
      total = 0,
      mean = 0,
      square = 0;
    for (let i = 0; i < SOFTPLUS.length; i++) {
      const z = -12 + 0.1 * i;
      tilted[i] = s * SOFTPLUS[i] - 0.5 * z * z;
      if (tilted[i] > highest) highest = tilted[i];
    }
    for (let i = 0; i < SOFTPLUS.length; i++) {
      const weight = Math.exp(tilted[i] - highest),
        x = SOFTPLUS[i];
      total += weight;
      mean += weight * x;
      square += weight * x * x;
    }
    mean /= total;
    return [highest + Math.log((0.1 * total) / Math.sqrt(2 * Math.PI)), mean, square / total - mean * mean];
  }
  const SOFTPLUS = Float64Array.from({ length: 521 }, (_, i) => Math.max(-12 + 0.1 * i, 0) + Math.log1p(Math.exp(-Math.abs(-12 + 0.1 * i)))), // prettier-ignore
    tilted = new Float64Array(SOFTPLUS.length);

  /** e^{x²} erfc x for x ≥ 0. */
  function scaledErfc(x) {
    if (x < 2.5) return Math.exp(x * x) * (1 - erf(x));
    let fraction = x;
    for (let n = 60; n > 0; n--) fraction = x + n / 2 / fraction;
    return 1 / Math.sqrt(Math.PI) / fraction;
  }

  /** The bulk: the maximum of E uphill from a, with everything the dual needs there; null where there is none. */
  function bulkAt(task, t, from) {
    const w = task.weights;
    let a = from;
    for (let round = 0; round < 300; round++) {
      const cumulant = [0, 1, 2].map((c) => task.site(dot(a, t.slice(3 * c, 3 * c + 3))));
      const pull = [-a[0], -a[1], -a[2]],
        stiffness = new Float64Array([1, 0, 0, 0, 1, 0, 0, 0, 1]);
      for (let c = 0; c < 3; c++)
        for (let r = 0; r < 3; r++) {
          pull[r] += w[c] * cumulant[c][1] * t[3 * c + r];
          for (let q = 0; q < 3; q++)
            stiffness[3 * r + q] -= w[c] * cumulant[c][2] * t[3 * c + r] * t[3 * c + q];
        }
      const move = choleskySolve(stiffness.slice(), pull, 3);
      if (Math.hypot(...pull) < 1e-14 || (round > 250 && Math.hypot(...pull) < 1e-12)) {
        if (!move) return null;
        const energy = cumulant.reduce((sum, [log], c) => sum + w[c] * log, -0.5 * dot(a, a));
        return { a, energy, stiffness, mean: cumulant.map((k) => k[1]), variance: cumulant.map((k) => k[2]) };
      }
      const step = move && round > 3 && Math.hypot(...move) < 0.5 ? move : pull;
      a = a.map((x, r) => x + step[r]);
    }
    return null;
  }

  /** The barrier's objective on the way to the dual's optimum: value, gradient, Hessian and the forces that
      constraints exert, those along given directions first, then those of every class alone, |t_c|² ≤ 1/w_c. */
  function barrierAt(task, t, directions, weight, start) {
    const w = task.weights,
      T = task.temperature,
      bulk = bulkAt(task, t, start);
    if (!bulk) return { value: Infinity };
    let value = bulk.energy;
    const gradient = new Float64Array(9),
      hessian = new Float64Array(81),
      forces = [];
    const mixed = [0, 1, 2].map((r) =>
      Float64Array.from({ length: 9 }, (_, i) => {
        // ∂²E/∂a_r ∂t_i
        const c = (i / 3) | 0;
        return w[c] * ((i % 3 === r ? bulk.mean[c] : 0) + bulk.variance[c] * bulk.a[i % 3] * t[3 * c + r]);
      }),
    );
    const moved = Array.from({ length: 9 }, (_, i) =>
      choleskySolve(
        bulk.stiffness.slice(),
        mixed.map((row) => row[i]),
        3,
      ),
    );
    for (let i = 0; i < 9; i++) {
      const c = (i / 3) | 0;
      value += w[c] * t[i] * (0.5 * T * t[i] - task.targets[i]);
      gradient[i] = w[c] * (bulk.mean[c] * bulk.a[i % 3] + T * t[i] - task.targets[i]);
      for (let j = 0; j < 9; j++) {
        hessian[9 * i + j] =
          mixed[0][i] * moved[j][0] + mixed[1][i] * moved[j][1] + mixed[2][i] * moved[j][2];
        if (((j / 3) | 0) === c)
          hessian[9 * i + j] += w[c] * (bulk.variance[c] * bulk.a[i % 3] * bulk.a[j % 3] + (i === j ? T : 0));
      }
    }
    const slope = new Float64Array(9);
    const constrain = (load, curvature) => {
      const slack = 1 - load;
      if (!(slack > 0)) {
        value = Infinity;
        return;
      }
      const force = weight / slack;
      value -= weight * Math.log(slack);
      forces.push(force);
      for (let i = 0; i < 9; i++) {
        gradient[i] += force * slope[i];
        if (slope[i] !== 0)
          for (let j = 0; j < 9; j++) hessian[9 * i + j] += ((force * force) / weight) * slope[i] * slope[j];
        const c = (i / 3) | 0;
        for (let j = 3 * c; j < 3 * c + 3; j++) hessian[9 * i + j] += force * curvature(c, i % 3, j % 3);
      }
    };
    for (const d of directions) {
      const z = [0, 1, 2].map((c) =>
        Math.max(0, d[0] * t[3 * c] + d[1] * t[3 * c + 1] + d[2] * t[3 * c + 2]),
      );
      for (let i = 0; i < 9; i++) slope[i] = 2 * w[(i / 3) | 0] * z[(i / 3) | 0] * d[i % 3];
      constrain(w[0] * z[0] ** 2 + w[1] * z[1] ** 2 + w[2] * z[2] ** 2, (c, r, q) =>
        z[c] > 0 ? 2 * w[c] * d[r] * d[q] : 0,
      );
    }
    for (let own = 0; own < 3; own++) {
      for (let i = 0; i < 9; i++) slope[i] = ((i / 3) | 0) === own ? 2 * w[own] * t[i] : 0;
      constrain(w[own] * (t[3 * own] ** 2 + t[3 * own + 1] ** 2 + t[3 * own + 2] ** 2), (c, r, q) =>
        c === own && r === q ? 2 * w[own] : 0,
      );
    }
    return { value, gradient, hessian, forces, bulk };
  }

  /** h(â) = Σ_c w_c (â·t_c)₊². */
  function loadOf({ weights }, t, a) {
    let sum = 0;
    for (let c = 0; c < 3; c++) sum += weights[c] * Math.max(0, a[0] * t[3 * c] + a[1] * t[3 * c + 1] + a[2] * t[3 * c + 2]) ** 2;
    return sum;
  }

  /** Local maxima of h(â) = Σ_c w_c [â·t_c]₊², highest first: â ← Σ_c w_c t_c [â·t_c]₊, normalized, never lowers it. */
  function heaviest(task, t, more) {
    const found = [],
      fields = rowsOf(t);
    for (let a of [...SPHERE, ...more, ...fields.map(unit)]) {
      for (let round = 0; round < 300; round++) {
        const pull = [0, 0, 0];
        fields.forEach((field, c) => {
          const z = task.weights[c] * Math.max(0, dot(a, field));
          for (let r = 0; r < 3; r++) pull[r] += z * field[r];
        });
        if (Math.hypot(...pull) < 1e-12) break;
        const next = unit(pull),
          moved = distance(a, next);
        a = next;
        if (moved < 1e-9) break;
      }
      const load = loadOf(task, t, a);
      if (!found.some((other) => distance(a, other.a) < 1e-3)) found.push({ a, load });
    }
    return found.sort((one, other) => other.load - one.load);
  }

  /** The network of the same task with ReLU or softplus, N, P → ∞: outliers, a = √N ā and z = √N z̄, and one bulk.

      The dual is minimized under h(â) ≤ 1 along the barrier's path, directions that come to violate it joining; the
      active ones are the outliers. Newton's method then solves all conditions at once, and only a point
      that violates none counts as converged. Where several sets of outliers solve the task alike (`family`), one of
      the smallest is returned. */
  function solveRelu(options) {
    const task = makeTask(options);
    task.site = options.nonlinearity === "softplus" ? softplusCumulants : reluCumulants;
    let t = new Float64Array(9),
      directions = SPHERE,
      bulk = [0, 0, 0],
      now = null,
      best = null;
    const weights = [1, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7];
    for (let round = 0; round < 30; round++) {
      for (const weight of round < 5 ? weights.slice(0, 4 + Math.min(round, 3)) : weights.slice(3)) {
        for (let step = 0; step < 60; step++) {
          now = barrierAt(task, t, directions, weight, bulk);
          if (!Number.isFinite(now.value)) break;
          bulk = now.bulk.a;
          const direction = descent(now.hessian, now.gradient),
            slope = dot(direction, now.gradient);
          if (-slope < 1e-3 * weight) break;
          let length = 1,
            next = null;
          for (; length > 1e-10; length /= 2) {
            next = t.map((x, i) => x + length * direction[i]);
            if (barrierAt(task, next, directions, weight, bulk).value < now.value + 0.1 * length * slope)
              break;
          }
          if (length <= 1e-10) break;
          t = next;
        }
      }
      const found = heaviest(task, t, directions.slice(SPHERE.length)),
        top = found[0].load;
      if (now.forces && top < 1 + 1e-2) {
        for (const outliers of candidates(task, t, directions, now.forces)) {
          const point = polish(task, t, bulk, outliers);
          if (!best || point.error < best.error) best = point;
          if (best.error <= RELU_TOLERANCE) return reluSolution(task, fewest(task, best));
        }
      }
      if (top > 1) t = t.map((x) => (0.999 * x) / Math.sqrt(top));
      directions = [
        ...directions,
        ...found
          .filter(({ load }) => load > 0.9999 * Math.min(top, 1))
          .slice(0, 12)
          .map(({ a }) => a),
      ];
    }
    return reluSolution(task, best);
  }

  /** The same solution with outliers that are parallel, or that can be rotated into fewer, taken together. */
  function fewest(task, point) {
    const fields = [0, 1, 2].map((c) => Array.from(point.field.slice(3 * c, 3 * c + 3)));
    const rotated = rotatedInwards(
      fields,
      point.outliers.filter((a) => dot(a, a) > 1e-6),
      1e-7,
    );
    const fewer = rotated && polish(task, point.field, point.a0, rotated);
    return fewer && fewer.error <= RELU_TOLERANCE ? fewer : point;
  }

  /** Sets of outliers that the barrier's forces stand for, to start Newton's method from; the smallest first. */
  function candidates(task, t, directions, forces) {
    const fields = rowsOf(t);
    let atoms = [...directions, ...fields.map(unit)].map((a, k) => ({ a, strength: 2 * forces[k] }));
    const largest = Math.max(...atoms.map(({ strength }) => strength));
    atoms = atoms.filter(({ strength }) => strength > Math.max(1e-5, 1e-4 * largest));
    atoms.sort((one, other) => other.strength - one.strength);
    const clusters = [];
    for (const { a, strength } of atoms) {
      const near = clusters.find((cluster) => distance(unit(cluster.sum), a) < 0.1);
      if (near) {
        near.sum = near.sum.map((x, r) => x + strength * a[r]);
        near.strength += strength;
      } else clusters.push({ sum: a.map((x) => strength * x), strength });
    }
    const outliers = clusters.map(({ sum, strength }) => unit(sum).map((x) => x * Math.sqrt(strength)));
    const rotated = rotatedInwards(fields, outliers);
    return rotated ? [rotated, outliers.slice(0, 9)] : [outliers.slice(0, 9)];
  }

  /** Outliers that share classes, as few as their span allows, each answering to all of its group's classes.

      Where Σ_i ā_i z̄_ic = Λ t_c with Λ = Σ_i ā_i ā_iᵀ over a group, every square root of Λ whose rows answer to all
      the group's classes is a set of outliers too. Of them, the one farthest from silence; null where there is none. */
  function rotatedInwards(fields, outliers, smallest = 1e-3) {
    const answers = outliers.map((a) => fields.map((field) => dot(unit(a), field) > 1e-3));
    const group = outliers.map((_, i) => i); // the smallest index spreads through each group
    for (let changed = true; changed;) {
      changed = false;
      for (let i = 0; i < group.length; i++)
        for (let j = 0; j < i; j++)
          if (group[i] !== group[j] && answers[i].some((on, c) => on && answers[j][c])) {
            group[i] = group[j] = Math.min(group[i], group[j]);
            changed = true;
          }
    }
    const found = [];
    let state = 1;
    const random = () => (state = (state * 48271) % 2147483647) / 2147483647 - 0.5;
    for (const label of new Set(group)) {
      const members = outliers.filter((_, i) => group[i] === label);
      const classes = fields.filter((_, c) => outliers.some((__, i) => group[i] === label && answers[i][c]));
      const moment = new Float64Array(9);
      for (const a of members) for (let i = 0; i < 9; i++) moment[i] += a[(i / 3) | 0] * a[i % 3];
      const { values, vectors } = eigen(moment);
      const root = [2, 1, 0]
        .filter((k) => values[k] > smallest * values[2])
        .map((k) => vectors[k].map((x) => x * Math.sqrt(values[k])));
      const shown = root.map((row) => classes.map((field) => dot(row, field)));
      let best = null,
        margin = -Infinity;
      for (const width of [1, 0.3, 0.1, 0.03, 0.01]) {
        const center = best;
        for (let k = 0; k < 300; k++) {
          const rotation = [];
          root.forEach((_, i) => {
            // Gram–Schmidt on a random change of the best so far
            let row = root.map((__, j) => (center ? center[i][j] : 0) + width * random());
            for (const other of rotation) {
              const p = dot(row, other);
              row = row.map((x, j) => x - p * other[j]);
            }
            rotation.push(unit(row));
          });
          let lowest = Infinity;
          rotation.forEach((row, i) => {
            let z = classes.map((_, c) => row.reduce((sum, x, j) => sum + x * shown[j][c], 0));
            if (z.reduce((sum, x) => sum + x, 0) < 0) {
              rotation[i] = row.map((x) => -x);
              z = z.map((x) => -x);
            }
            lowest = Math.min(lowest, ...z);
          });
          if (lowest > margin) {
            margin = lowest;
            best = rotation;
          }
          if (root.length === 1) break;
        }
      }
      if (!(margin > 0)) return null;
      for (const row of best)
        found.push([0, 1, 2].map((r) => row.reduce((sum, x, j) => sum + x * root[j][r], 0)));
    }
    return found;
  }

  /** All conditions at once: w_c (a0 ⟨φ⟩_c + Σ_i ā_i z̄_ic + T t_c − y_c), and E' = 0 for the bulk and each outlier.
      Their Jacobian is symmetric. */
  function conditions(task, x) {
    const w = task.weights,
      count = x.length / 3 - 3,
      size = x.length;
    const error = new Float64Array(size),
      jacobian = new Float64Array(size * size);
    for (let i = 0; i < 9; i++) {
      const c = (i / 3) | 0;
      error[i] = w[c] * (task.temperature * x[i] - task.targets[i]);
      jacobian[size * i + i] = w[c] * task.temperature;
    }
    for (let k = 0; k < count; k++) {
      // k = 0: the bulk
      const at = 9 + 3 * k,
        a = x.subarray(at, at + 3);
      for (let r = 0; r < 3; r++) {
        error[at + r] = -a[r];
        jacobian[size * (at + r) + at + r] = -1;
      }
      for (let c = 0; c < 3; c++) {
        const s = a[0] * x[3 * c] + a[1] * x[3 * c + 1] + a[2] * x[3 * c + 2];
        const [, mean, variance] = k === 0 ? task.site(s) : [0, Math.max(s, 0), s > 0 ? 1 : 0];
        for (let r = 0; r < 3; r++) {
          error[3 * c + r] += w[c] * mean * a[r];
          error[at + r] += w[c] * mean * x[3 * c + r];
          for (let q = 0; q < 3; q++) {
            jacobian[size * (3 * c + r) + 3 * c + q] += w[c] * variance * a[r] * a[q];
            jacobian[size * (at + r) + at + q] += w[c] * variance * x[3 * c + r] * x[3 * c + q];
            const cross = w[c] * ((r === q ? mean : 0) + variance * a[r] * x[3 * c + q]); // ∂ error_cr / ∂ a_q
            jacobian[size * (3 * c + r) + at + q] += cross;
            jacobian[size * (at + q) + 3 * c + r] += cross;
          }
        }
      }
    }
    return { error, jacobian };
  }

  /** Levenberg–Marquardt from a candidate, then the certificate: what is violated, by the equations, by a direction
      with h(â) > 1, or by a readout higher than the bulk. */
  function polish(task, t, bulk, outliers) {
    let x = Float64Array.from([...t, ...bulk, ...outliers.flat()]),
      now = conditions(task, x),
      damping = 1e-4;
    const size = x.length,
      norm = ({ error }) => Math.sqrt(dot(Array.from(error), error));
    for (let step = 0; step < 60 && norm(now) > 1e-13; step++) {
      const { error, jacobian } = now,
        normal = new Float64Array(size * size),
        right = new Float64Array(size);
      for (let i = 0; i < size; i++)
        for (let k = 0; k < size; k++) {
          const value = jacobian[size * i + k];
          if (value === 0) continue;
          right[i] -= value * error[k];
          for (let j = 0; j < size; j++) normal[size * i + j] += value * jacobian[size * k + j];
        }
      for (let i = 0; i < size; i++) normal[size * i + i] += damping;
      const move = choleskySolve(normal, right, size);
      const next = move && x.map((value, i) => value + move[i]),
        there = next && conditions(task, next);
      if (there && norm(there) < norm(now)) {
        x = next;
        now = there;
        damping = Math.max(damping / 30, 1e-13);
      } else {
        damping *= 10;
        if (damping > 1e3) break;
      }
    }
    const field = x.slice(0, 9),
      a0 = Array.from(x.slice(9, 12)),
      found = [];
    for (let at = 12; at < size; at += 3) found.push(Array.from(x.slice(at, at + 3)));
    let residual = 0;
    now.error.forEach((e, i) => {
      residual = Math.max(residual, Math.abs(i < 9 ? e / task.weights[(i / 3) | 0] : e));
    });
    const load = heaviest(task, field, found.filter((a) => Math.hypot(...a) > 1e-4).map(unit))[0].load;
    const own = bulkAt(task, field, a0);
    let higher = own ? 0 : Infinity;
    if (load < 1 + 1e-6 && own)
      for (let c = 0; c < 3; c++)
        for (const scale of [0.5, 2]) {
          const other = bulkAt(
            task,
            field,
            Array.from(field.slice(3 * c, 3 * c + 3), (v) => scale * v),
          );
          if (other) higher = Math.max(higher, other.energy - own.energy);
        }
    return { field, a0, outliers: found, bulk: own, residual, error: Math.max(residual, load - 1, higher) };
  }

  function reluSolution(task, best) {
    const converged = best !== null && best.error <= RELU_TOLERANCE;
    if (!converged) return { converged, residual: best?.error ?? Infinity };
    const fields = [0, 1, 2].map((c) => Array.from(best.field.slice(3 * c, 3 * c + 3)));
    const outliers = best.outliers
      .filter((a) => dot(a, a) > 1e-6)
      .sort((a, b) => dot(b, b) - dot(a, a))
      .map((readout) => ({
        readout,
        preactivations: fields.map((field) => {
          const z = dot(readout, field);
          return z > 1e-6 ? z : 0;
        }),
      }));
    const shared = (one, other) => one.preactivations.some((z, c) => z > 0 && other.preactivations[c] > 0);
    return {
      converged,
      residual: best.error,
      field: fields,
      outliers,
      family: outliers.some((one, i) => outliers.some((other, j) => i < j && shared(one, other))),
      bulkReadout: best.a0,
      bulkActivations: best.bulk.mean,
      trainingError: trainingError(task, best.field),
    };
  }

  // --- the ReLU network where inputs of a class are alike: a population, see theory.clustered ------------------

  const RAYS = { spacing: 1, cutoff: 34 }, // they lie e^{−10} and more below the bulk
    COARSE_RAYS = { spacing: 1.3, cutoff: 24 };
  const LEAST_DISTANCE = 1e-4; // from the edge beyond which the integral over readouts diverges
  const FARTHEST = 20; // field that the first table reaches

  /** log Φ(x). */
  function logNormal(x) {
    const tail = 0.5 * scaledErfc(Math.abs(x) / Math.SQRT2);
    return x < 0 ? Math.log(tail) - 0.5 * x * x : Math.log1p(-tail * Math.exp(-0.5 * x * x));
  }

  /** log E e^{sφ} of φ = max(0, z), z ~ N(u, σ²), and ⟨φᵏ⟩ for k = 1 … 4 under this weight, into `moments`. */
  function rectified(s, u, sigma, moments) {
    const mean = u + s * sigma * sigma,
      x = mean / sigma,
      active = logNormal(x),
      silent = logNormal(-u / sigma),
      weight = s * u + 0.5 * (s * sigma) ** 2 + active,
      most = Math.max(silent, weight),
      log = most + Math.log(Math.exp(silent - most) + Math.exp(weight - most)),
      share = Math.exp(weight - log);
    moments[0] = log;
    if (x < -30) {
      const scale = (-sigma * sigma) / mean; // z is exponential
      for (let k = 1, power = scale; k <= 4; k++, power *= k * scale) moments[k] = share * power;
      return;
    }
    let before = 1,
      now = mean + (sigma * Math.exp(-0.5 * x * x - active)) / Math.sqrt(2 * Math.PI);
    for (let k = 1; k <= 4; k++) {
      moments[k] = share * now;
      [before, now] = [now, mean * now + k * sigma * sigma * before];
    }
  }

  /** G, G', G'' of a class of n inputs at the field s, ⟨m²⟩ of two inputs and ⟨m⁴⟩ of the class's mean activation m.

      By the trapezoid rule in v, which all inputs share; its steps are those of theory.clustered. */
  function rectifiedClass(s, n, overlap) {
    const sigma = Math.sqrt(1 - overlap),
      step = Math.max((0.9 * sigma) / Math.sqrt(1 - overlap + n * overlap), 0.25 / Math.sqrt(n)),
      top = Math.max(0, Math.sqrt(overlap) * n * s),
      low = top > 30 ? top - 30 : -13,
      count = Math.ceil((top + 13 - low) / step) + 1,
      logs = new Float64Array(count),
      rows = new Float64Array(5 * count),
      moments = new Float64Array(5);
    let highest = -Infinity;
    for (let j = 0; j < count; j++) {
      const v = low + step * j;
      rectified(s, Math.sqrt(overlap) * v, sigma, moments);
      logs[j] = n * moments[0] - 0.5 * v * v;
      rows.set(moments, 5 * j);
      highest = Math.max(highest, logs[j]);
    }
    let total = 0, mean = 0, square = 0, variance = 0, fourth = 0; // prettier-ignore
    for (let j = 0; j < count; j++) {
      const weight = Math.exp(logs[j] - highest),
        [, one, two, three, four] = rows.subarray(5 * j, 5 * j + 5),
        own = two - one * one,
        third = three - 3 * one * two + 2 * one ** 3,
        last = four - 4 * one * three - 3 * two * two + 12 * one * one * two - 6 * one ** 4; // cumulants
      total += weight;
      mean += weight * one;
      square += weight * one * one;
      variance += weight * own;
      fourth += weight * (one ** 4 + (6 * one * one * own) / n + (3 * own * own) / n ** 2 + (4 * one * third) / n ** 2 + last / n ** 3); // prettier-ignore
    }
    mean /= total;
    square /= total;
    return [
      highest + Math.log((total * step) / Math.sqrt(2 * Math.PI)),
      n * mean,
      (n * variance) / total + n * n * (square - mean * mean),
      square,
      fourth / total,
    ];
  }

  /** What grows like ½ s² for s > 0, with a smooth step, and its first two derivatives. */
  function parabola(s) {
    const root = Math.sqrt(1 + s * s);
    return [
      0.25 * s * s * (1 + s / root),
      0.5 * s + (0.25 * s * s * (3 + 2 * s * s)) / root ** 3,
      0.5 + (0.25 * s * (6 + 5 * s * s + 2 * s ** 4)) / root ** 5,
    ];
  }

  /** Table of G/n less its parabola over x = asinh s, quintic between nodes; rows: value, h d/dx, h² d²/dx², ⟨m²⟩, ⟨m⁴⟩. */
  function makeGrown(n, overlap, reach) {
    const stiffness = 1 - overlap + n * overlap,
      step = Math.min(0.05, 0.25 / Math.sqrt(n * stiffness)),
      half = Math.ceil(Math.asinh(reach) / step) + 2,
      rows = new Float64Array(5 * (2 * half + 1));
    for (let k = -half; k <= half; k++) {
      const s = Math.sinh(k * step),
        root = Math.cosh(k * step),
        [G, mean, variance, square, fourth] = rectifiedClass(s, n, overlap),
        far = parabola(s).map((f) => stiffness * f),
        slope = mean / n - far[1];
      rows.set([G / n - far[0], step * root * slope, step * step * (root * root * (variance / n - far[2]) + s * slope), square, fourth], 5 * (k + half)); // prettier-ignore
    }
    return { rows, step, half, stiffness, reach, lowest: 0, highest: 0 }; // the bulk is where climbing begins
  }

  function grownCumulants(s, { rows, step, half, stiffness, reach }) {
    if (!(Math.abs(s) <= reach)) throw new RangeError(BEYOND);
    const x = Math.asinh(s) / step + half,
      k = x | 0,
      d = x - k,
      at = 5 * k;
    const p0 = rows[at], d0 = rows[at + 1], c0 = rows[at + 2], d1 = rows[at + 6], c1 = rows[at + 7]; // prettier-ignore
    const jump = rows[at + 5] - p0 - d0 - 0.5 * c0,
      slope = d1 - d0 - c0,
      bend = c1 - c0;
    const third = 10 * jump - 4 * slope + 0.5 * bend,
      fourth = -15 * jump + 7 * slope - bend,
      fifth = 6 * jump - 3 * slope + 0.5 * bend;
    const first = d0 + d * (c0 + d * (3 * third + d * (4 * fourth + d * 5 * fifth))),
      second = c0 + d * (6 * third + d * (12 * fourth + d * 20 * fifth));
    const root = Math.sqrt(1 + s * s),
      far = parabola(s);
    const byField = first / (step * root);
    L[0] = stiffness * far[0] + p0 + d * (d0 + d * (0.5 * c0 + d * (third + d * (fourth + d * fifth))));
    L[1] = stiffness * far[1] + byField;
    L[2] = stiffness * far[2] + (second / (step * step) - s * byField) / (root * root);
  }

  /** ⟨m²⟩ (column 3) or ⟨m⁴⟩ (4) at a field: cubic through the nearest four nodes. */
  function columnAt({ rows, step, half }, s, number) {
    const x = Math.asinh(s) / step + half,
      k = x | 0,
      d = x - k,
      [f0, f1, f2, f3] = [-1, 0, 1, 2].map((j) => rows[5 * (k + j) + number]);
    return f1 + 0.5 * d * (f2 - f0 + d * (2 * f0 - 5 * f1 + 4 * f2 - f3 + d * (3 * (f1 - f2) + f3 - f0)));
  }
  const BEYOND = "a field beyond the table";

  /** Distance δ of t from the edge, and how far readouts reach along the axes: where the density has fallen by the cutoff. */
  function reachOf(task, t, cutoff) {
    const stiff = t.map((x, i) => x * Math.sqrt(task.tables[(i / 3) | 0].stiffness)),
      ahead = [...SPHERE.map((a) => ({ a, load: loadOf(task, stiff, a) })), ...heaviest(task, stiff, [])],
      room = 1 - ahead.reduce((most, { load }) => Math.max(most, load), 0);
    const low = [0, 0, 0],
      high = [0, 0, 0];
    for (const { a, load } of ahead)
      for (let r = 0; r < 3; r++) {
        const end = a[r] * Math.sqrt((2 * (cutoff + 5)) / task.numInputs / (1 - load));
        low[r] = Math.min(low[r], end);
        high[r] = Math.max(high[r], end);
      }
    return { distance: room, low, high };
  }

  /** The ReLU network of inputs that overlap: at N → ∞ a fraction of the neurons, `participation`, carries each class.

      Returns also the kernel between inputs of the classes (3 × 3, two different inputs), the field, training error, residual and
      converged; false where the population is so thin that no network of a page's size shows it. */
  function solvePopulation(options) {
    const task = makeTask(options),
      { overlap } = options;
    let reach = FARTHEST;
    for (;;) {
      task.tables = task.counts.map((n) => remembered(`relu ${overlap} ${n} ${reach}`, () => makeGrown(n, overlap, reach)));
      try {
        return populationWithin(task);
      } catch (error) {
        if (error.message !== BEYOND) throw error;
        if (reach > 1e3) return { converged: false, residual: Infinity };
        reach *= 16;
      }
    }
  }

  function populationWithin(task) {
    const of = (level, lattice) => (t, here) => {
      const box = reachOf(level, t, lattice.cutoff);
      if (!(box.distance > Math.max(LEAST_DISTANCE, 0.25 * (here?.distance ?? 0)))) return { value: Infinity };
      return { ...dual(level, t, { ...lattice, box }), distance: box.distance };
    };
    let t = new Float64Array(9);
    for (let P = 8; P < task.numInputs; P *= 4)
      ({ t } = newton(of({ ...task, numInputs: P, temperature: Math.max(task.temperature, 1e-2) }, COARSE_RAYS), t, 1e-2));
    ({ t } = newton(of(task, COARSE_RAYS), t, 1e-5));
    const { t: field, residual } = newton(of(task, RAYS), t, TOLERANCE),
      converged = residual <= TOLERANCE;
    return { converged, residual, ...(converged ? describePopulation(task, field) : {}) };
  }

  /** Averages over the lattice that `points` holds. */
  function describePopulation(task, t) {
    dual(task, t, { ...RAYS, box: reachOf(task, t, RAYS.cutoff) });
    let highest = -Infinity,
      total = 0;
    for (let n = 0; n < points.count; n++) highest = Math.max(highest, points.energy[n]);
    const mean = [0, 0, 0],
      second = [0, 0, 0],
      fourth = [0, 0, 0],
      kernel = [0, 1, 2].map(() => [0, 0, 0]);
    for (let n = 0, p = 0; n < points.count; n++, p += 3) {
      const weight = Math.exp(points.energy[n] - highest);
      total += weight;
      for (let c = 0; c < 3; c++) {
        const s = points.a[p] * t[3 * c] + points.a[p + 1] * t[3 * c + 1] + points.a[p + 2] * t[3 * c + 2],
          one = points.mean[p + c];
        mean[c] += weight * one;
        second[c] += weight * (one * one + points.variance[p + c] / task.counts[c]);
        fourth[c] += weight * columnAt(task.tables[c], s, 4);
        for (let e = 0; e < 3; e++)
          kernel[c][e] += weight * (e === c ? columnAt(task.tables[c], s, 3) : one * points.mean[p + e]);
      }
    }
    return {
      participation: second.map((x, c) => (x * x) / (total * fourth[c])),
      activations: mean.map((x) => x / total),
      kernel: kernel.map((row) => row.map((x) => x / total)),
      field: rowsOf(t),
      trainingError: trainingError(task, t),
    };
  }

  // --- walking through the phase diagram --------------------------------------------------------

  /** The first change in the number of codes (those with 1 % of the neurons) on the way from a solved task.

      name: "temperature", in steps of a factor, or "yMinus", in steps of a difference; `step` may be negative. Returns
      {value, before, after}, bisected to a hundredth of the step, or null where the way ends at `end` without one. */
  function transition(options, solution, name, step, end) {
    const log = name === "temperature",
      at = (x) => ({ ...options, [name]: log ? Math.exp(x) : x });
    const [first, last] = log ? [Math.log(options[name]), Math.log(end)] : [options[name], end];
    let near = first,
      start = solution;
    while ((last - near) * step > 1e-9) {
      let far = step > 0 ? Math.min(near + step, last) : Math.max(near + step, last);
      let beyond = solve({ ...at(far), start });
      if (!beyond.converged) return null;
      if (beyond.numCodes === start.numCodes) {
        near = far;
        start = beyond;
        continue;
      }
      while (Math.abs(far - near) > Math.abs(step) / 100) {
        const middle = solve({ ...at((near + far) / 2), start });
        if (!middle.converged) return null;
        if (middle.numCodes === start.numCodes) {
          near = (near + far) / 2;
          start = middle;
        } else {
          far = (near + far) / 2;
          beyond = middle;
        }
      }
      const value = (near + far) / 2;
      return { value: log ? Math.exp(value) : value, before: start.numCodes, after: beyond.numCodes };
    }
    return null;
  }

  /** One column of the phase diagram: codes at every temperature, from the highest down, and where the last one stands alone.

      Returns {effectiveCodes, numCodes, critical}: per temperature, in the order given (ascending), NaN where a solve failed;
      critical: above it there is one code at every temperature given, null where there is at all of them or at none. */
  function column(options, temperatures) {
    const found = { effectiveCodes: [], numCodes: [], critical: null };
    let start,
      above = null;
    for (const temperature of [...temperatures].reverse()) {
      const solution = solve({ ...options, temperature, start });
      found.effectiveCodes.unshift(solution.converged ? solution.effectiveCodes : NaN);
      found.numCodes.unshift(solution.converged ? solution.numCodes : NaN);
      if (!solution.converged) {
        start = undefined;
        continue;
      }
      if (above && above.numCodes === 1 && solution.numCodes > 1 && found.critical === null)
        found.critical =
          transition(
            { ...options, temperature: above.temperature },
            above,
            "temperature",
            Math.log(temperature / above.temperature),
            temperature,
          )?.value ?? null;
      above = { ...solution, temperature };
      start = solution;
    }
    return found;
  }

  /** log E exp(s φ(z)) over z ~ N(0, 1) and its first two derivatives, by nonlinearity. */
  const cumulantsOf = {
    linear: (s) => [(s * s) / 2, s, 1],
    sigmoidal: (s) => {
      cumulants(s, ORTHOGONAL);
      return Array.from(L);
    },
    relu: reluCumulants,
  };

  return { CODES, solve, solveRelu, solvePopulation, solveLinear, transition, column, densityAt, makeTask, cumulantsOf };
}

if (typeof module !== "undefined") module.exports = createSolver();
