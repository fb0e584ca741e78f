/* What the explorer's solver finds on the stored atlas's grid and off it, for the check of claim D4, which is made where
   no Node may be: node tests/explorer/store.js > data/results/explorer.json */

"use strict";

const explorer = require("../../book/_static/explorer.js");

const HALF = [0.5, 0.25, 0.25];
const grid = [];
for (let k = 0; k < 13; k++)
  for (let j = 0; j < 11; j++)
    grid.push({ numInputs: 100, ratios: HALF, yMinus: -0.5 + 0.1 * k, temperature: 0.001 * 300 ** (j / 10) });
const elsewhere = [
  { numInputs: 40, ratios: [0.4, 0.35, 0.25], yMinus: 0.13, temperature: 0.02 },
  { numInputs: 40, ratios: [0.6, 0.2, 0.2], yMinus: 0.55, temperature: 0.005 },
  { numInputs: 40, ratios: [0.3, 0.5, 0.2], yMinus: -0.37, temperature: 0.05 },
];

function shares(task) {
  const found = explorer.solve({ ...task, yPlus: 1 });
  if (!found.converged) throw new Error(`no solution: ${JSON.stringify(task)}`);
  return explorer.CODES.map((code) => Number(found.occupancies[code].toFixed(6)));
}

const withShares = (task) => ({ ...task, shares: shares(task) });
const result = { codes: explorer.CODES, grid: grid.map(shares), elsewhere: elsewhere.map(withShares) };
console.log(JSON.stringify(result));
