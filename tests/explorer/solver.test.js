/* The explorer's solvers in Node: node --test solver.test.js. With ORACLE set to a file of test_solver.py, against the
   library and the stored atlas too. */

"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const vm = require("node:vm");
const explorer = require(process.env.EXPLORER ?? "../../book/_static/explorer.js");

const TASK = { ratios: [0.5, 0.25, 0.25], numInputs: 500, yPlus: 1, yMinus: 0.5, temperature: 0.01 };
const oracle = process.env.ORACLE ? JSON.parse(fs.readFileSync(process.env.ORACLE, "utf8")) : null;
const withOracle = { skip: oracle ? false : "needs ORACLE" };

function close(found, expected, tolerance, message) {
  assert.equal(found.length, expected.length, message);
  found.forEach((value, k) =>
    assert.ok(Math.abs(value - expected[k]) <= tolerance, `${message}: ${found} against ${expected}`),
  );
}
const shares = (solution) => explorer.CODES.map((code) => solution.occupancies[code]);
const meanReadout = ({ densities }) =>
  densities.map(({ start, step, values }) =>
    values.reduce((sum, f, i) => sum + f * step * (start + i * step), 0),
  );
/* Equal classes have mirrored codes of equal shares; the library gives a tie on the ridge between them to one of the two */
const mirrored = (code) => code[0] + code[2] + code[1];
const folded = (task, found) =>
  explorer.CODES.map((code) =>
    task.ratios[1] === task.ratios[2] ? (found[code] + found[mirrored(code)]) / 2 : found[code],
  );
const nameOf = (task) =>
  `P ${task.numInputs}, ratios ${task.ratios}, y₋ ${task.yMinus}, T ${task.temperature}`;

// Numbers computed independently of both programs
test("check values at P = 500, y₋ = 1/2", () => {
  for (const [temperature, expected] of [
    [1e-4, [0.3148, 0.3148, 0.3304, 0.0401]],
    [0.01, [0.3014, 0.3014, 0.3071, 0.0901]],
  ]) {
    const solution = explorer.solve({ ...TASK, temperature });
    assert.ok(solution.converged && solution.residual < 1e-6);
    close(
      ["110", "101", "011", "111"].map((code) => solution.occupancies[code]),
      expected,
      6e-5,
      `T = ${temperature}`,
    );
  }
  const cold = explorer.solve({ ...TASK, temperature: 1e-4 });
  close(cold.readouts["110"], [1.731, 1.572, -0.338], 1.5e-3, "a(1-1-0)");
  close(cold.activations["110"], [0.903, 0.93, 0.099], 1.5e-3, "⟨φ⟩ of 1-1-0");
  const hot = explorer.solve({ ...TASK, temperature: 0.1 });
  assert.equal(hot.numCodes, 1);
  close(meanReadout(hot), [0.872, 0.721, 0.721], 6e-4, "mean readout of the one code");
});

test("a population that does not converge says so, and an error of the program stays one", () => {
  const thin = { ...TASK, numInputs: 60, yMinus: -0.5, overlap: 0.1 };
  assert.equal(explorer.solvePopulation(thin).converged, false);
  const script = fs.readFileSync(path.join(__dirname, "../../book/_static/explorer.js"), "utf8"),
    passage = "const box = reachOf(level, t, lattice.cutoff);";
  assert.equal(script.split(passage).length, 2);
  const broken = script.slice(script.indexOf("function createSolver")).split("if (typeof module")[0].replace(passage, "const box = none.such;");
  const { solvePopulation } = vm.runInThisContext(`(${broken.trim()})`)();
  assert.throws(() => solvePopulation(thin), /none is not defined/);
});

test("shares sum to one, densities integrate to one and have the codes' mean", () => {
  const solution = explorer.solve(TASK);
  assert.ok(Math.abs(shares(solution).reduce((a, b) => a + b) - 1) < 1e-5);
  for (const { step, values } of solution.densities)
    assert.ok(Math.abs(step * values.reduce((a, b) => a + b) - 1) < 1e-9);
  const mean = meanReadout(solution);
  mean.forEach((a, r) => {
    // up to the spread around the maxima, the average over codes
    const expected = Object.entries(solution.readouts).reduce(
      (sum, [code, readout]) => sum + solution.occupancies[code] * readout[r],
      0,
    );
    assert.ok(Math.abs(a - expected) < 0.02, `${a} against ${expected}`);
  });
});

test("a start from a neighbor, near or far, ends at the same solution", () => {
  const cold = shares(explorer.solve(TASK));
  for (const neighbor of [
    { yMinus: 0.48 },
    { temperature: 0.2 },
    { yMinus: -0.9, ratios: [0.2, 0.3, 0.5] },
    { numInputs: 30 },
  ])
    close(
      shares(explorer.solve({ ...TASK, start: explorer.solve({ ...TASK, ...neighbor }) })),
      cold,
      1e-6,
      JSON.stringify(neighbor),
    );
});

test("permuting the classes permutes the codes", () => {
  const one = explorer.solve({ ...TASK, ratios: [0.5, 0.3, 0.2] }),
    other = explorer.solve({ ...TASK, ratios: [0.2, 0.5, 0.3] });
  for (const code of explorer.CODES)
    assert.ok(Math.abs(one.occupancies[code] - other.occupancies[code[2] + code[0] + code[1]]) < 1e-4, code);
});

test("bad tasks are refused with what is allowed", () => {
  for (const [wrong, message] of [
    [{ temperature: 0 }, /^T: got 0; allowed are numbers from/],
    [{ temperature: NaN }, /^T: got NaN/],
    [{ numInputs: 2 }, /^P: got 2; allowed are whole numbers from 3/],
    [{ numInputs: 50.5 }, /^P: got 50.5/],
    [{ ratios: [0.999, 0.0005, 0.0005] }, /leave class 1 without an input at P = 500/],
    [{ ratios: [1, 0, 0] }, /^Class ratios: got 1,0,0; allowed are three numbers above 0/],
    [{ ratios: [0.5, 0.25, 0.2] }, /^Class ratios: got a sum of 0.95; allowed is 1/],
    [{ yMinus: 1 }, /^y₋: got 1, the same as y₊/],
    [{ yMinus: 7 }, /^y₋: got 7; allowed are numbers from/],
  ])
    for (const solve of [explorer.solve, explorer.solveRelu, explorer.solveLinear])
      assert.throws(
        () => solve({ ...TASK, ...wrong }),
        (error) => error instanceof RangeError && message.test(error.message),
      );
});

test("a solve that cannot converge says so and describes nothing", () => {
  const source = fs.readFileSync(
    require.resolve(process.env.EXPLORER ?? "../../book/_static/explorer.js"),
    "utf8",
  );
  const module = { exports: {} };
  new Function("module", source.replace("const TOLERANCE = 1e-7", "const TOLERANCE = -1"))(module);
  const solution = module.exports.solve(TASK);
  assert.equal(solution.converged, false);
  assert.ok(solution.residual >= 0 && !("occupancies" in solution));
});

test("sigmoidal against the library", withOracle, () => {
  assert.ok(oracle.sigmoidal.length >= 25);
  for (const task of oracle.sigmoidal) {
    const solution = explorer.solve(task),
      name = nameOf(task);
    assert.ok(solution.converged, name);
    close(folded(task, solution.occupancies), folded(task, task.shares), 1e-3, name);
    close(solution.field.flat(), task.field.flat(), 1e-5, `${name}, field`);
    assert.ok(Math.abs(solution.trainingError - task.trainingError) < 1e-7, `${name}, training error`);
    assert.equal(solution.numCodes, task.numPeaks, `${name}, number of codes`);
    for (const [code, readout] of Object.entries(task.readouts)) {
      close(solution.readouts[code], readout, 1e-4, `${name}, readout of ${code}`);
      const active = task.activations[code];
      if (active) close(solution.activations[code], active, 2e-3, `${name}, activations of ${code}`);
    }
    const highest = Math.max(...task.densities.flat());
    task.densities.forEach((density, r) =>
      density.forEach((expected, k) => {
        const a = task.grid[k],
          found = explorer.densityAt(solution.densities[r], a);
        const between = Math.abs(Math.round(a / (0.25 / Math.sqrt(task.numInputs)))) % 2;
        const tolerance = (between ? 5e-3 : 1e-4) * highest; // exact at the nodes
        assert.ok(
          Math.abs(found - expected) < tolerance,
          `${name}, density ${r} at ${a}: ${found}, ${expected}`,
        );
      }),
    );
  }
});

test("sigmoidal against the stored atlas, and its critical temperatures", withOracle, () => {
  const { targets, temperatures, codes, occupancies, critical } = oracle.atlas;
  const border = []; // where a cell of the lattice on the border of two peaks went to the other one, by rounding
  targets.forEach((yMinus, k) => {
    let start;
    temperatures.forEach((temperature, j) => {
      start = explorer.solve({ ...TASK, numInputs: 100, yMinus, temperature, start });
      const stored = Object.fromEntries(codes.map((code, g) => [code, occupancies[k][j][g]]));
      const expected = folded(TASK, stored);
      const off = Math.max(...folded(TASK, start.occupancies).map((p, g) => Math.abs(p - expected[g])));
      assert.ok(off < 0.01, `y₋ ${yMinus}, T ${temperature}: off by ${off}`);
      if (off > 1e-3) border.push([yMinus, temperature, off]);
      const mirror = Object.fromEntries(
        explorer.CODES.map((code) => [code, start.occupancies[mirrored(code)]]),
      );
      close(
        shares(start),
        explorer.CODES.map((code) => mirror[code]),
        1e-9,
        `y₋ ${yMinus}, T ${temperature}: equal classes`,
      );
    });
    const found = explorer.column({ ...TASK, numInputs: 100, yMinus }, [0.01, 0.03, 0.1, 0.3]);
    assert.ok(
      Math.abs(Math.log(found.critical / critical[k])) < 0.02,
      `T_c at y₋ ${yMinus}: ${found.critical} against ${critical[k]}`,
    );
  });
  assert.ok(border.length <= 1, `of 143 places, off by more than 0.001: ${border.join("; ")}`);
});

test("transitions against the library", withOracle, () => {
  for (const { task, name, step, end, value, before, after } of oracle.transitions) {
    const found = explorer.transition(task, explorer.solve(task), name, step, end);
    assert.ok(
      Math.abs(found.value - value) < 0.01 * Math.abs(value),
      `${name}: ${found.value} against ${value}`,
    );
    assert.deepEqual([found.before, found.after], [before, after]);
  }
  assert.equal(explorer.transition(TASK, explorer.solve(TASK), "temperature", -0.4, 5e-3), null);
});

test("ReLU against the library", withOracle, () => {
  assert.ok(oracle.relu.length >= 8);
  for (const task of oracle.relu) {
    const solution = explorer.solveRelu(task),
      name = nameOf(task);
    assert.ok(solution.converged, name);
    close(solution.field.flat(), task.field.flat(), 1e-6, `${name}, field`);
    close(solution.bulkReadout, task.bulkReadout, 1e-6, `${name}, bulk`);
    close(solution.bulkActivations, task.bulkActivations, 1e-6, `${name}, ⟨φ⟩`);
    assert.equal(solution.outliers.length, task.outliers.length, `${name}, number of outliers`);
    assert.equal(solution.family, task.family, `${name}, family`);
    close([solution.trainingError], [task.trainingError], 1e-7, `${name}, training error`);
    const output = (outliers) =>
      Array.from({ length: 9 }, (_, i) =>
        // what all of them add to the outputs, unique in a family too
        outliers.reduce(
          (sum, { readout, preactivations }) => sum + preactivations[(i / 3) | 0] * readout[i % 3],
          0,
        ),
      );
    close(output(solution.outliers), output(task.outliers), 1e-6, `${name}, output of the outliers`);
    if (task.family) continue;
    for (const expected of task.outliers) {
      const found = solution.outliers.find(
        ({ readout }) => Math.hypot(...readout.map((a, r) => a - expected.readout[r])) < 1e-5,
      );
      assert.ok(found, `${name}: no outlier at ${expected.readout}`);
      close(found.preactivations, expected.preactivations, 1e-5, `${name}, z of an outlier`);
    }
  }
});

test("linear against the library", withOracle, () => {
  for (const task of oracle.linear) {
    const solution = explorer.solveLinear(task),
      name = nameOf(task);
    close(solution.readoutCovariance.flat(), task.covariance.flat(), 1e-8, `${name}, covariance`);
    close(solution.field.flat(), task.field.flat(), 1e-7, `${name}, field`);
    close(solution.spread, task.spread, 1e-8, `${name}, eigenvalues`);
    close([solution.trainingError], [task.trainingError], 1e-8, `${name}, training error`);
    solution.vectors.forEach((v, k) => {
      const moved = solution.readoutCovariance.map((row) => row.reduce((sum, x, r) => sum + x * v[r], 0));
      close(moved, Array.from(v, (x) => solution.spread[k] * x), 1e-12, `${name}, eigenvector ${k}`);
      assert.ok(Math.abs(Math.hypot(...v) - 1) < 1e-12, `${name}, length of ${k}`);
    });
  }
});
