/* The phase diagram of the explorer's buttons, solved once, so that the page shows it at once:
   node tests/explorer/store_map.js > book/_static/explorer-map.js */

"use strict";

const { column } = require("../../book/_static/explorer.js");

const grid = {
  targets: Array.from({ length: 20 }, (_, k) => Number((-1 + 0.1 * k).toFixed(1))),
  temperatures: Array.from({ length: 13 }, (_, k) => Number((10 ** (-3 + 0.25 * k)).toPrecision(6))),
};
const task = { ratios: [0.5, 0.25, 0.25], numInputs: 500, yPlus: 1 };
const columns = grid.targets.map((yMinus) => {
  const { effectiveCodes, critical } = column({ ...task, yMinus }, grid.temperatures);
  if (!effectiveCodes.every(Number.isFinite)) throw new Error(`no solution at y₋ = ${yMinus}`);
  return { effectiveCodes: effectiveCodes.map((x) => Number(x.toFixed(3))), critical: critical && Number(critical.toPrecision(4)) };
}); // prettier-ignore
const of = JSON.stringify([task.ratios, task.yPlus, task.numInputs]);
console.log(`/* Made by tests/explorer/store_map.js */\nconst EXPLORER_MAP = ${JSON.stringify({ ...grid, of, columns })};`);
