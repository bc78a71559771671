import { readFileSync } from 'node:fs';
import { join } from 'node:path';

// Stands for Prisma's module of the same content in the bundle. As source text, its 4.6 MB would
// stay in memory, and be in the image twice.
export const wasm = readFileSync(join(import.meta.dirname, 'query-compiler.wasm'), 'base64');
