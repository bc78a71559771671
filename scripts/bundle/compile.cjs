'use strict';
// Usage: node [FLAG] compile.cjs FOLDER PROGRAM
// Starts a program of the bundle, and at its end writes the code that V8 compiled next to each file.
const { writeFileSync } = require('node:fs');
const { join } = require('node:path');

const [folder, program] = process.argv.splice(2);
const { scripts } = require(join(folder, 'load.cjs'));
process.once('exit', () => {
  for (const [path, script] of scripts) writeFileSync(`${path}.cache`, script.createCachedData());
});
require(join(folder, `${program}.cjs`));
