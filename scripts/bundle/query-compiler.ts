import { readFileSync } from 'node:fs';
import { join } from 'node:path';

// Replaces, in the bundle, Prisma's module of the same content. As source text, its 4.6 MB would
// stay in memory and would be in the image twice.
export const wasm = readFileSync(join(import.meta.dirname, 'query-compiler.wasm'), 'base64');
