'use strict';
// Usage: node [FLAG] - FOLDER PROGRAM < compile.cjs
// Starts a program of the bundle, and at its end writes the code that V8 compiled next to each file.
const { writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { setFlagsFromString } = require('node:v8');

const [folder, program] = process.argv.splice(2);
const { scripts } = require(join(folder, 'load.cjs'));
// The caches must not depend on when other threads collect garbage or compile. They hold the flags
// that are set when they are written.
const timed = ['flush-bytecode', 'sparkplug'];
for (const flag of timed) setFlagsFromString(`--no-${flag}`);
process.once('exit', () => {
  for (const flag of timed) setFlagsFromString(`--${flag}`);
  for (const [path, script] of scripts) writeFileSync(`${path}.cache`, script.createCachedData());
});
require(join(folder, `${program}.cjs`));
