import { setTimeout as delay } from 'node:timers/promises';
import { seeded } from '../base/seeded.ts';
import { answersOk, until } from '../programs/processes.ts';
import { startNumberedCalls, type Tally } from './numbered-calls.ts';

interface Kills {
  readonly victim: 'sidecar' | 'control plane';
  readonly times: number;
  readonly seed: number;
  /** No further kill after this; what was done until then is held against all the same. */
  readonly withinMs?: number;
}

export interface KillReport extends Tally {
  readonly kills: number;
  /** Of the kills: while it was starting. */
  readonly atStart: number;
  /** From start to ready; of a sidecar, to its being alive. */
  readonly restartMs: { readonly median: number; readonly most: number };
}

/**
 * SIGKILL again and again under load: mostly at a random moment after at least one more call was
 * performed, now and then while the program is starting. Then all is held against all.
 */
export async function killUnderLoad({
  victim,
  times,
  seed,
  withinMs = 10 * 60_000,
}: Kills): Promise<KillReport> {
  const random = seeded(seed);
  const isSidecar = victim === 'sidecar';
  const calls = await startNumberedCalls({ isPresenting: isSidecar });
  const { separate } = calls.bench;
  // Not until a sidecar is ready: it gets only so many leases a minute, and presented passports need none.
  const restart = async (isAwaited = true) => {
    if (!isSidecar) return separate.restartControlPlane({ ready: isAwaited });
    await separate.restartSidecar({ ready: false });
    if (isAwaited) await until('it lives', () => answersOk(`${separate.adminUrl}/healthz`));
  };
  const kill = async () => {
    calls.isHeld = isSidecar;
    await (isSidecar ? separate.sidecar : separate.controlPlane).kill();
  };
  const restarts: number[] = [];
  let atStart = 0;
  let kills = 0;
  try {
    // What it compiled is kept when it ends in order, which makes all further starts fast.
    await (isSidecar ? separate.sidecar : separate.controlPlane).stop();
    await restart();
    const deadline = performance.now() + withinMs;
    while (kills < times && performance.now() < deadline) {
      kills++;
      const before = calls.performed;
      await until('a call is performed', () => calls.performed > before, 60_000);
      await delay(random() * 150);
      await kill();
      while (random() < 0.5 && kills < times) {
        kills++;
        atStart++;
        await restart(false);
        await delay(random() * (restarts.at(-1) ?? 500));
        await kill();
      }
      const begun = performance.now();
      await restart();
      restarts.push(performance.now() - begun);
      calls.isHeld = false;
    }
    const before = calls.performed;
    await until('a call is performed', () => calls.performed > before, 60_000);
    await calls.stop();
    const tally = await calls.check();
    const sorted = restarts.toSorted((a, b) => a - b).map(Math.round);
    const restartMs = { median: sorted[sorted.length >> 1] ?? 0, most: sorted.at(-1) ?? 0 };
    return { kills, atStart, restartMs, ...tally };
  } finally {
    await calls.close();
  }
}
