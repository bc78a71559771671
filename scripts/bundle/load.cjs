'use strict';
// Copied into the bundle as `load.cjs`: loads the bundle's files with code that V8 compiled when the
// bundle was made. Node's own compile cache would depend on the user and on the processor, and a
// read-only file system could not store it (docs/decisions/0246).
const fs = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');
const { setFlagsFromString } = require('node:v8');
const { Script } = require('node:vm');

const requireExternal = createRequire(__filename);
const modules = new Map();
/** The compiled files, so that `compile.cjs` can write their caches. */
const scripts = new Map();

function read(path) {
  try {
    return fs.readFileSync(path);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  }
}

/** The exports of a file of the bundle; runs it at its first use. */
function load(path) {
  const known = modules.get(path);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  modules.set(path, module);
  // V8 verifies that the cache belongs to itself, to its flags and to the source.
  const script = new Script(fs.readFileSync(path, 'latin1'), {
    filename: path,
    cachedData: read(`${path}.cache`),
  });
  scripts.set(path, script);
  const folder = dirname(path);
  const require = (name) => {
    return name.startsWith('./') ? load(join(folder, name)) : requireExternal(name);
  };
  script.runInThisContext()(module.exports, require, module, path, folder);
  return module.exports;
}

/** Starts a program of the bundle. */
function run(name, v8Flags) {
  for (const flag of v8Flags) setFlagsFromString(flag);
  load(join(__dirname, name, 'main.js'));
}

module.exports = { run, scripts };
