/* The laboratory's sampler in Node: node --test sampler.test.js; numbers of the library come in ORACLE, a file of
   test_sampler.py. Statistical tests have fixed seeds and limits in standard errors. */

"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const vm = require("node:vm");
const { makeTask, solveRelu } = require("../../book/_static/explorer.js");
const laboratory = require("../../book/_static/laboratory.js");

const SCRIPT = fs.readFileSync(path.join(__dirname, "../../book/_static/laboratory.js"), "utf8");
const TASK = { numNeurons: 60, numInputs: 60, ratios: [0.5, 0.25, 0.25], yMinus: 0.5, temperature: 0.01, seed: 1 };
const TINY = { numNeurons: 4, numInputs: 5, ratios: [0.4, 0.4, 0.2], yMinus: -0.5, temperature: 0.5, seed: 1 };
const oracle = process.env.ORACLE ? JSON.parse(fs.readFileSync(process.env.ORACLE, "utf8")) : null;
const withOracle = { skip: oracle ? false : "needs ORACLE" };

/** The sampler without its kernel, if it is not to keep it, and with a passage of its source replaced, to see a test fail. */
function faulty(passage = "", replacement = "", keep = false) {
  const start = SCRIPT.indexOf("function createLaboratory");
  let source = SCRIPT.slice(start, SCRIPT.indexOf("\n}\n", start) + 2);
  for (const [from, to] of [["const kernel = compiled();", "const kernel = null;"], [passage, replacement]].slice(keep ? 1 : 0, passage ? 2 : 1)) {
    assert.equal(source.split(from).length, 2, `the script holds "${from}" once`);
    source = source.replace(from, to);
  } // prettier-ignore
  return vm.runInThisContext(`(${source.trim()})`)(makeTask);
}

/** Mean and standard error of a series, from means over batches of it. */
function summary(values, numBatches = 25) {
  const size = Math.floor(values.length / numBatches),
    means = Array.from({ length: numBatches }, (_, b) =>
      values.slice(b * size, (b + 1) * size).reduce((sum, x) => sum + x / size, 0),
    ); // prettier-ignore
  const mean = means.reduce((sum, x) => sum + x / numBatches, 0),
    variance = means.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (numBatches - 1);
  return { mean, error: Math.sqrt(variance / numBatches) };
}

/** What of a network is averaged in a joint test, and its average under prior and likelihood. */
const MEASURES = {
  "u²": [({ u }) => u.reduce((sum, x) => sum + x * x, 0) / u.length, 1],
  "a²": [({ a }) => a.reduce((sum, x) => sum + x * x, 0) / a.length, 1],
  "u⁴": [({ u }) => u.reduce((sum, x) => sum + x ** 4, 0) / u.length, 3],
  "a⁴": [({ a }) => a.reduce((sum, x) => sum + x ** 4, 0) / a.length, 3],
  "|a_i|²|u_i|²": [
    ({ a, u, N, P }) => {
      let sum = 0;
      for (let i = 0; i < N; i++)
        for (let r = 0; r < 3; r++) for (let m = 0; m < P; m++) sum += (a[r * N + i] * u[m * N + i]) ** 2;
      return sum / (3 * N * P);
    },
    1,
  ],
  "‖y − f‖²β": [({ squaredError, precision, P }) => (squaredError * precision) / (3 * P), 1],
};

/** Joint test (Geweke 2004): targets drawn from the network, then a step that should keep their joint law.

    Returns the deviation of every measure from its average under the prior, in standard errors. */
function jointTest(lab, options, step, count) {
  const net = lab.makeNetwork(options),
    series = Object.fromEntries(Object.keys(MEASURES).map((name) => [name, []]));
  net.precision = net.N / options.temperature;
  const { run = step } = { run: lab.steps[step] };
  for (let k = 0; k < count; k++) {
    lab.look(net);
    for (let m = 0; m < net.residual.length; m++) {
      const noise = net.normal() / Math.sqrt(net.precision);
      net.targets[m] += noise - net.residual[m]; // f + noise
    }
    net.fresh = false;
    run(net, 0.35);
    lab.look(net);
    for (const [name, [measure]] of Object.entries(MEASURES)) series[name].push(measure(net));
  }
  return Object.entries(MEASURES).map(([name, [, expected]]) => {
    const { mean, error } = summary(series[name]);
    return [name, (mean - expected) / error];
  });
}
const worst = (found) => Math.max(...found.map(([, z]) => Math.abs(z)));

// The chains move slowly where a step leaves readouts or angles alone: HMC goes with it
function mixed(name) {
  return (lab) => (net, step) => {
    lab.steps[name](net, step);
    lab.steps.trajectory(net, step);
  };
}

for (const nonlinearity of ["sigmoidal", "relu"])
  for (const overlap of [0, 0.6])
    for (const name of ["trajectory", "gibbs", "rotations"]) {
      test(`joint test: ${name} of a ${nonlinearity} network, overlap ${overlap}`, () => {
        for (const numNeurons of name === "gibbs" ? [4, 7] : [4]) {
          const lab = { ...laboratory, steps: { tried: mixed(name)(laboratory) } };
          const found = jointTest(lab, { ...TINY, numNeurons, nonlinearity, overlap }, "tried", 12000);
          assert.ok(worst(found) < 4, JSON.stringify(found));
        }
      });
    }

test("joint test: each planted fault is found", () => {
  for (const [name, passage, replacement] of [
    ["trajectory", "net.fresh = uniform() < probability;", "net.fresh = true;"],
    ["trajectory", "const before = energy(net) + kinetic(net),", "const before = energy(net),"],
    ["trajectory", "const force0 = slopes[i] *", "const force0 = 1.5 * slopes[i] *"],
    ["gibbs", "for (let i = 0; i < N; i++) x[i] += normal();", "for (let i = 0; i < N; i++) x[i] += 0.8 * normal();"],
    ["gibbs", "for (let i = 0; i < size; i++) matrix[i * size + i] += 1;", "for (let i = 0; i < size; i++) matrix[i * size + i] += 2;"],
    ["rotations", "if (!(log(uniform()) < -0.5 * net.precision * change)) continue;", ""],
    ["rotations", "change -= shift * (2 * old - shift);", "change -= shift * (2 * old + shift);"],
  ]) {
    const broken = faulty(passage, replacement);
    const lab = { ...broken, steps: { tried: mixed(name)(broken) } };
    const found = jointTest(lab, { ...TINY, nonlinearity: "relu" }, "tried", 12000);
    // a wrong force is no fault of the law: HMC accepts less, but what it accepts is right
    if (passage.startsWith("const force0")) assert.ok(worst(found) < 4, JSON.stringify(found));
    else assert.ok(worst(found) > 6, `${passage} → ${replacement}: ${JSON.stringify(found)}`);
  }
});

test("the kernel gives what JavaScript gives, to the last bit", () => {
  const plain = faulty(),
    other = faulty("const force0 = slopes[i] *", "const force0 = (1 + 1e-12) * slopes[i] *");
  for (const nonlinearity of Object.keys(laboratory.NONLINEARITIES))
    for (const [numNeurons, numInputs, overlap, method] of [[12, 16, 0, "hmc"], [13, 17, 0.5, "hmc"], [7, 13, 0, "langevin"]]) {
      const options = { ...TASK, nonlinearity, numNeurons, numInputs, overlap, method, slope: 1.3, transitions: 60 };
      const [kernel, script, changed] = [laboratory, plain, other].map((lab) => lab.run(options));
      assert.deepEqual(kernel, script);
      assert.notEqual(kernel.energy, changed.energy);
    } // prettier-ignore
  assert.notEqual(laboratory.makeNetwork({ ...TASK, nonlinearity: "relu" }).pass, null);
  assert.equal(plain.makeNetwork({ ...TASK, nonlinearity: "relu" }).pass, null);
});

test("many networks find room one after another", () => {
  for (let seed = 0; seed < 1500; seed++) laboratory.makeNetwork({ ...TINY, seed, nonlinearity: "tanh" });
});

test("the force is minus the slope of the energy", () => {
  for (const nonlinearity of Object.keys(laboratory.NONLINEARITIES))
    for (const overlap of [0, 0.4]) {
      const net = laboratory.makeNetwork({ ...TINY, nonlinearity, overlap, slope: 1.3 });
      net.precision = 3;
      laboratory.sweep(net, 1, 0);
      for (const [x, force, k] of [[net.u, net.p, 7], [net.a, net.pa, 5]]) {
        const at = (shift) => {
          x[k] += shift;
          laboratory.sweep(net, 0, 0);
          const found = laboratory.energy(net);
          x[k] -= shift;
          return found;
        }; // prettier-ignore
        const slope = (at(1e-5) - at(-1e-5)) / 2e-5,
          stretch = x === net.a ? net.stretch : 1;
        assert.ok(Math.abs(force[k] / stretch + slope) < 1e-6, `${nonlinearity}: ${force[k]}, ${-slope}`);
      }
    } // prettier-ignore
});

test("tables hold φ and its slope", () => {
  for (const [name, { phi }] of Object.entries(laboratory.NONLINEARITIES)) {
    const net = laboratory.makeNetwork({ ...TINY, nonlinearity: name, numNeurons: 400 });
    net.u.forEach((_, k) => (net.u[k] = -30 + (60 * k) / net.u.length + 1e-3));
    laboratory.sweep(net, 0, 0);
    net.u.forEach((z, k) => {
      const tolerance = 2e-7 + (name === "softplus" && Math.abs(z) > 19 ? 1e-6 : 0);
      assert.ok(Math.abs(net.h[k] - phi(z)) < tolerance * Math.max(1, Math.abs(phi(z))), `${name} at ${z}: ${net.h[k]}`);
    });
  }
});

test("exponential and logarithm are right to rounding", () => {
  for (let k = -4000; k < 4000; k++) {
    const x = k * 0.0871,
      relative = Math.abs(laboratory.exp(x) / Math.exp(x) - 1);
    assert.ok(relative < 3e-16 * (1 + Math.abs(x) / 50), `exp(${x}): ${relative}`);
    const y = Math.exp(x);
    assert.ok(Math.abs(laboratory.log(y) - x) < 4e-16 * (1 + Math.abs(x)), `log(${y})`);
  }
  assert.equal(laboratory.exp(-1e4), 0);
  assert.equal(laboratory.log(1), 0);
});

test("random numbers are uniform and normal, and differ between seeds", () => {
  const { uniform, normal } = laboratory.makeRandom(5),
    n = 400000,
    x = Float64Array.from({ length: n }, normal);
  const moment = (power) => x.reduce((sum, v) => sum + v ** power / n, 0);
  for (const [power, expected, variance] of [[1, 0, 1], [2, 1, 2], [3, 0, 15], [4, 3, 96]]) // prettier-ignore
    assert.ok(Math.abs(moment(power) - expected) < 4 * Math.sqrt(variance / n), `moment ${power}`);
  for (const [edge, expected] of [[0.5, 0.3829249], [2, 0.9544997], [3.6, 0.9996818]]) { // prettier-ignore
    const found = x.filter((v) => Math.abs(v) < edge).length / n;
    assert.ok(Math.abs(found - expected) < 4 * Math.sqrt((expected * (1 - expected)) / n), `${edge}: ${found}`);
  }
  const mean = Array.from({ length: n }, uniform).reduce((sum, v) => sum + v / n, 0);
  assert.ok(Math.abs(mean - 0.5) < 4 / Math.sqrt(12 * n));
  assert.notEqual(laboratory.makeRandom(1).normal(), laboratory.makeRandom(2).normal());
});

test("the prior comes back where the task weighs nothing, and one network stays one", () => {
  for (const nonlinearity of ["sigmoidal", "relu"]) {
    const net = laboratory.makeNetwork({ ...TASK, nonlinearity, numNeurons: 20, numInputs: 20 }),
      squares = [];
    net.u.fill(3);
    net.a.fill(-2);
    for (let k = 0; k < 600; k++) {
      laboratory.advance(net, 1e9, k < 100);
      if (k >= 100) squares.push([MEASURES["u²"][0](net), MEASURES["a²"][0](net)]);
    }
    for (const which of [0, 1]) {
      const { mean, error } = summary(squares.map((pair) => pair[which]));
      assert.ok(Math.abs(mean - 1) < 4 * error && error < 0.02, `${nonlinearity} ${which}: ${mean} ± ${error}`);
    }
  }
});

test("Langevin dynamics has the posterior as its step goes to zero", () => {
  const at = (step) => jointTest({ ...laboratory, steps: { tried: (net) => laboratory.steps.langevin(net, step) } }, { ...TINY, nonlinearity: "sigmoidal", method: "langevin" }, "tried", 6000); // prettier-ignore
  assert.ok(worst(at(0.1)) < 4, JSON.stringify(at(0.1)));
  assert.ok(worst(at(0.9)) > 6);
});

test("swapping two neurons changes the network and nothing that can be seen from outside", () => {
  const close = (one, other) => one.forEach((x, k) => assert.ok(Math.abs(x - other[k]) < 1e-12, `${x}, ${other[k]}`)),
    renamed = (i) => ({ 3: 11, 11: 3 })[i] ?? i;
  for (const overlap of [0, 0.3])
    for (const nonlinearity of ["relu", "sigmoidal"]) {
      const net = laboratory.makeNetwork({ ...TASK, nonlinearity, overlap });
      for (let k = 0; k < 20; k++) laboratory.advance(net, 0.1);
      const before = laboratory.observe(net);
      laboratory.swap(net, 3, 11);
      for (const fresh of [net.fresh, false]) {
        net.fresh = fresh; // as it is kept, and computed anew
        const after = laboratory.observe(net);
        for (let i = 0; i < net.N; i++)
          for (const rows of ["readouts", "preactivations", "activations"]) close(after[rows][i], before[rows][renamed(i)]);
        assert.ok(Math.abs(after.energy - before.energy) < 1e-9 * before.energy);
        after.outputs.forEach((row, m) => close(row, before.outputs[m]));
      }
    }
});

test("one seed gives one run", () => {
  const options = { ...TASK, nonlinearity: "relu", transitions: 30 };
  const [one, other, next] = [options, options, { ...options, seed: 2 }].map((o) => laboratory.run(o));
  assert.deepEqual(one, other);
  assert.notEqual(one.energy, next.energy);
  assert.ok(one.acceptance > 0 && one.acceptance <= 1);
  assert.equal(Object.values(one.codes).reduce((a, b) => a + b), 60);
});

test("what is not allowed is refused in words", () => {
  for (const [change, words] of [
    [{ numNeurons: 1 }, /N: got 1; allowed are whole numbers from 2/],
    [{ numNeurons: 4000 }, /N: got 4000; allowed are whole numbers from 2 to 400/],
    [{ numInputs: 60.5 }, /P: got 60.5; allowed are whole numbers/],
    [{ numInputs: 1000 }, /P: got 1000; allowed are whole numbers from 3 to 400/],
    [{ temperature: 0 }, /T: got 0; allowed are numbers from/],
    [{ temperature: -1 }, /T: got -1/],
    [{ ratios: [0.99, 0.005, 0.005] }, /they leave class 1 without an input/],
    [{ yMinus: 1 }, /y₋: got 1, the same as y₊/],
    [{ nonlinearity: "sine" }, /nonlinearity: got sine; allowed are linear, sigmoidal/],
    [{ overlap: 1 }, /Overlap ρ: got 1; allowed are numbers from 0 to 0.99/],
    [{ slope: 0 }, /Slope of φ: got 0/],
    [{ scaling: 2 }, /Scaling: got 2/],
    [{ seed: -1 }, /seed: got -1/],
    [{ transitions: 0 }, /transitions: got 0/],
  ])
    assert.throws(() => laboratory.run({ ...TASK, nonlinearity: "relu", ...change }), (error) => error instanceof RangeError && words.test(error.message)); // prettier-ignore
});

test("a run that diverges says so", () => {
  const net = laboratory.makeNetwork({ ...TASK, nonlinearity: "relu_squared", method: "langevin" });
  net.u.fill(1e80);
  assert.throws(() => laboratory.advance(net, 1e-4), /the run diverged at T = 0.0001, transition 1: its energy/);
});

// --- against the library ------------------------------------------------------------------------------

test("the linear network has the closed form's readouts", withOracle, () => {
  for (const { options, covariance } of oracle.linear) {
    const moments = [];
    for (let seed = 1; seed <= 12; seed++) {
      const net = laboratory.makeNetwork({ ...options, nonlinearity: "linear", seed }),
        sum = new Float64Array(3);
      for (let k = 0; k < 400; k++) {
        laboratory.advance(net, laboratory.temperatureAt({ ...net.setting, transitions: 200 }, k), k < 120);
        if (k < 150) continue;
        for (let r = 0; r < 3; r++)
          for (let i = 0; i < net.N; i++) sum[r] += (net.readoutDeviation * net.a[r * net.N + i]) ** 2 / net.N / 250;
      }
      moments.push(sum);
    }
    for (let r = 0; r < 3; r++) {
      const found = summary(moments.map((row) => row[r]), 12); // prettier-ignore
      assert.ok(Math.abs(found.mean - covariance[r][r]) < 3 * found.error + covariance[r][r] / options.numNeurons, `${r}: ${found.mean} ± ${found.error}, theory ${covariance[r][r]}`); // prettier-ignore
    }
  }
});

/** Differences from the library's sampled numbers of neurons per code and from theory's, in standard errors: the largest. */
function fromBoth(lab, { options, numbers, sampled }, count) {
  const runs = Array.from({ length: count }, (_, k) => lab.run({ ...options, nonlinearity: "sigmoidal", transitions: 300, seed: k + 1 }).codes);
  const away = { theory: 0, library: 0 };
  for (const [code, expected] of Object.entries(numbers)) {
    const { mean, error } = summary(runs.map((codes) => codes[code] ?? 0), count),
      [drawn, uncertainty] = sampled[code] ?? [0, 0],
      least = 1e-3; // of codes that nobody holds
    away.theory = Math.max(away.theory, Math.abs(mean - expected) / Math.hypot(error, least));
    away.library = Math.max(away.library, Math.abs(mean - drawn) / Math.hypot(error, uncertainty, least));
  } // prettier-ignore
  return away;
}

test("numbers of neurons per code are the library's and theory's, over 20 seeds", withOracle, () => {
  const found = fromBoth(laboratory, oracle.codes, 20);
  assert.ok(found.theory < 3 && found.library < 3, JSON.stringify(found));
  const [passage, replacement] = ["log(net.N)) / temperature;", "log(net.N)) / (1.5 * temperature);"],
    off = fromBoth(faulty(passage, replacement, true), oracle.codes, 8);
  assert.ok(off.theory > 5 && off.library > 5, JSON.stringify(off));
});

test("a kernel, its mean over all pairs, its reach and its cosine with the classes, by loops", () => {
  const net = laboratory.makeNetwork({ ...TINY, nonlinearity: "sigmoidal" }),
    { N, P, labels } = net;
  for (let k = 0; k < 20; k++) laboratory.advance(net, 0.5, true);
  const found = laboratory.kernelOf(net),
    pairs = Array.from({ length: P * P }, (_, k) => [(k / P) | 0, k % P]),
    kernel = pairs.map(([m, n]) => Array.from({ length: N }, (_, i) => (net.h[m * N + i] * net.h[n * N + i]) / N).reduce((a, b) => a + b)),
    average = (values) => values.reduce((a, b) => a + b) / values.length,
    centered = (values) => {
      const rows = Array.from({ length: P }, (_, m) => average(values.slice(m * P, m * P + P)));
      return values.map((v, k) => v - rows[pairs[k][0]] - rows[pairs[k][1]] + average(rows));
    },
    [own, alike] = [kernel, pairs.map(([m, n]) => Number(labels[m] === labels[n]))].map(centered),
    dot = (x, y) => x.reduce((sum, v, k) => sum + v * y[k], 0),
    once = kernel.filter((_, k) => pairs[k][1] <= pairs[k][0]).sort((a, b) => a - b),
    mean = average(kernel);
  kernel.forEach((value, k) => assert.ok(Math.abs(found.kernel[k] - value) < 1e-6));
  assert.ok(Math.abs(found.mean - mean) < 1e-6);
  assert.ok(Math.abs(found.reach - Math.max(once[Math.floor(0.97 * once.length)] - mean, mean - once[0])) < 1e-6);
  assert.ok(Math.abs(found.alongClasses - dot(own, alike) / Math.sqrt(dot(own, own) * dot(alike, alike))) < 1e-5);
}); // prettier-ignore

test("the acceptance of a run is that of its last fifth, of any number of transitions", () => {
  const options = { ...TINY, nonlinearity: "sigmoidal", transitions: 12 },
    net = laboratory.makeNetwork(options),
    accepted = [];
  for (let k = 0; k < 12; k++) {
    laboratory.advance(net, laboratory.temperatureAt(net.setting, k), k < 9);
    accepted.push(net.acceptance);
  }
  const last = accepted.slice(9).reduce((a, b) => a + b) / 3;
  assert.ok(Math.abs(laboratory.run(options).acceptance - last) < 1e-12);
});

test("outliers of the ReLU network have theory's strength", withOracle, () => {
  const { options, preactivations } = oracle.outliers,
    strengths = [[], [], []];
  for (let seed = 1; seed <= 2; seed++) {
    const net = laboratory.makeNetwork({ ...options, nonlinearity: "relu", seed });
    for (let k = 0; k < 700; k++) {
      laboratory.advance(net, laboratory.temperatureAt({ ...net.setting, transitions: 600 }, k), k < 400);
      if (k < 450) continue;
      const { means } = laboratory.observe(net);
      for (let c = 0; c < 3; c++) strengths[c].push(Math.max(...means.map((row) => row[c])) / Math.sqrt(net.N));
    }
  }
  for (let c = 0; c < 3; c++) {
    const { mean } = summary(strengths[c]);
    assert.ok(Math.abs(mean / preactivations[c] - 1) < 0.02, `class ${c}: ${mean}, theory ${preactivations[c]}`);
  }
});

test("weak outliers are the network's own, and no matter of where it began", () => {
  const options = { ...TASK, nonlinearity: "relu", transitions: 400 },
    theory = solveRelu({ ...options, yPlus: 1 }).outliers,
    strengths = { cooled: [], planted: [] };
  for (let seed = 1; seed <= 4; seed++)
    for (const [start, found] of Object.entries(strengths)) {
      const net = laboratory.makeNetwork({ ...options, seed }),
        { N, firsts } = net;
      if (start === "planted")
        theory.forEach(({ readout, preactivations }, i) => {
          for (let c = 0; c < 3; c++) {
            for (let m = firsts[c]; m < firsts[c + 1]; m++) net.u[N * m + i] = Math.sqrt(N) * preactivations[c];
            net.a[N * c + i] = (Math.sqrt(N) * readout[c]) / net.readoutDeviation;
          }
        });
      let sum = 0;
      for (let k = 0; k < 1000; k++) {
        laboratory.advance(net, start === "planted" ? options.temperature : laboratory.temperatureAt(net.setting, k), k < 350);
        if (k < 400) continue;
        const { means } = laboratory.observe(net);
        for (let c = 0; c < 3; c++) sum += Math.max(...means.map((row) => row[c])) / 1800;
      }
      found.push(sum);
    }
  const [cooled, planted] = Object.values(strengths).map((values) => summary(values, 4)),
    ofTheory = [0, 1, 2].reduce((sum, c) => sum + (Math.sqrt(60) * Math.max(...theory.map((one) => one.preactivations[c]))) / 3, 0);
  assert.ok(Math.abs(cooled.mean - planted.mean) < 3 * Math.hypot(cooled.error, planted.error), JSON.stringify(strengths));
  for (const { mean, error } of [cooled, planted]) assert.ok(mean + 3 * error < 0.9 * ofTheory, `${mean} ± ${error}, theory ${ofTheory}`);
});

test("overlap spreads the ReLU code over as many neurons as in the library's networks", withOracle, () => {
  const { options, participation, error } = oracle.participation,
    found = [];
  for (let seed = 1; seed <= 4; seed++) {
    const net = laboratory.makeNetwork({ ...options, nonlinearity: "relu", seed });
    let sum = 0;
    for (let k = 0; k < 700; k++) {
      laboratory.advance(net, laboratory.temperatureAt({ ...net.setting, transitions: 500 }, k), k < 350);
      if (k >= 400) sum += laboratory.observe(net).participation.reduce((a, b) => a + b / 3, 0) / 300;
    }
    found.push(sum);
  }
  const { mean, error: own } = summary(found, 4);
  assert.ok(Math.abs(mean - participation) < 3 * Math.hypot(own, error), `${mean} ± ${own}, library ${participation} ± ${error}`); // prettier-ignore
});
