import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { goModule } from '../programs/go.ts';

export interface RunningWitness {
  /** The value of `SALLYPORT_WITNESSES` for this witness. */
  readonly setting: string;
  /** Registers a ledger at the witness, with the ledger's verifier key. */
  know(vkey: string): Promise<void>;
  close(): Promise<void>;
}

/** Starts a witness on loopback: an independent program in another language. */
export async function startWitness(): Promise<RunningWitness> {
  const program = await goModule(join(import.meta.dirname, '../go/witness'));
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const [, url = ''] = line.split(' ');
  return {
    setting: line,
    know: async (vkey) => {
      const { status } = await fetch(`${url}/logs`, { method: 'POST', body: vkey });
      if (status !== 200) throw new Error(`the witness answered ${status}`);
    },
    close: async () => {
      const ended = once(child, 'exit');
      child.stdin.end();
      await ended;
    },
  };
}
