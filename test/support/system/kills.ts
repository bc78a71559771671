import { setTimeout as delay } from 'node:timers/promises';
import { seeded } from '../base/seeded.ts';
import { answersOk, until } from '../programs/processes.ts';
import { startNumberedCalls, type Tally } from './numbered-calls.ts';

interface Kills {
  readonly victim: 'sidecar' | 'control plane';
  readonly times: number;
  readonly seed: number;
  /**
   * After this time, the program is not killed again. The calls made until then are still verified.
   */
  readonly withinMs?: number;
}

export interface KillReport extends Tally {
  readonly kills: number;
  /** Number of kills while the program was starting. */
  readonly atStart: number;
  /** Time from the start until ready; for a sidecar, from the start until alive. */
  readonly restartMs: { readonly median: number; readonly most: number };
}

/**
 * Kills a program repeatedly with SIGKILL under load. Most kills happen at a random moment after at
 * least one more call was performed, some while the program is starting. Then compares the
 * performed calls, the responses and the ledger.
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
  // Does not wait until a sidecar is ready: the number of its leases per minute is limited, and
  // calls with presented passports need no lease.
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
    // The first stop is a clean one: the program then stores its compile cache, which makes all
    // further starts fast.
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
