import { randomInt } from 'node:crypto';

/**
 * Returns a function that returns pseudo-random numbers from 0 to 1. The same seed gives the same
 * numbers (mulberry32).
 */
export function seeded(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Returns the seed in SEED, or a new one. Prints it, so that a failed run can be repeated:
 * `SEED=… npm run soak`.
 */
export function printedSeed(): number {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31));
  process.stdout.write(`seed ${seed}\n`);
  return seed;
}
