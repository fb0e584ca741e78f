// Rules for the book's JavaScript: classic scripts of the pages, and Node's tests of them. test_lint.py runs it.

import js from "@eslint/js";
import globals from "globals";

const rules = {
  ...js.configs.recommended.rules,
  "array-callback-return": "error",
  "consistent-return": "error",
  "default-case-last": "error",
  eqeqeq: "error",
  "no-console": "error",
  "no-constant-binary-expression": "error",
  "no-else-return": "error",
  "no-eval": "error",
  "no-self-compare": "error",
  "no-shadow": "error",
  "no-template-curly-in-string": "error",
  "no-unreachable-loop": "error",
  "no-unused-vars": ["error", { vars: "local" }], // a script's own globals are for the next script
  "no-use-before-define": ["error", { functions: false, variables: false }],
  "no-useless-return": "error",
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": "error",
  "require-atomic-updates": "error",
};
const linterOptions = { reportUnusedDisableDirectives: "error" };

export default [
  {
    files: ["book/_static/*.js", "lib/companion/*.js"],
    linterOptions,
    languageOptions: { ecmaVersion: 2023, sourceType: "script", globals: globals.browser },
    rules,
  },
  {
    files: ["book/_static/{explorer,laboratory,widgets,check-here}.js"], // in Node too
    languageOptions: { globals: { module: "writable", require: "readonly" } },
  },
  {
    files: ["book/_static/explorer-page.js"],
    languageOptions: { globals: { createSolver: "readonly", EXPLORER_SAMPLES: "readonly", EXPLORER_MAP: "readonly" } },
  },
  {
    files: ["book/_static/{laboratory-page,check-here,widgets}.js"],
    languageOptions: { globals: { createSolver: "readonly", createLaboratory: "readonly", drawNeuron: "readonly" } },
  },
  {
    files: ["tests/{explorer,laboratory}/*.js"],
    linterOptions,
    languageOptions: { ecmaVersion: 2023, sourceType: "commonjs", globals: globals.node },
    rules: { ...rules, "no-console": "off" },
  },
];
