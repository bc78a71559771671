import { openNote } from '../../../shared/ledger/note.ts';
import type { Guard } from '../../../shared/upstream/address-guard.ts';
import type { Witness } from '../../platform/config/witness-settings.ts';
import { guardedExchange } from '../../platform/outbound/guarded-post.ts';

interface Question {
  /** The signed note, as the ledger signed it. */
  readonly note: string;
  /** The size that the witness is thought to have signed last; 0: none. */
  readonly old: number;
  /** That the note's tree begins with that of size `old`. */
  readonly proof: readonly Buffer[];
}

type WitnessAnswer =
  /** A signature line, verified. */
  | { readonly outcome: 'cosigned'; readonly line: string }
  /** The witness signed another size last. */
  | { readonly outcome: 'elsewhere'; readonly size: number }
  /** What the witness signed last is not how this tree begins. */
  | { readonly outcome: 'inconsistent' }
  | { readonly outcome: 'refused'; readonly error: string };

const timeoutMs = 15_000;

/** Asks a witness to cosign a checkpoint (c2sp.org/tlog-witness, `add-checkpoint`). */
export async function askWitness(
  { verifier, url }: Witness,
  { note, old, proof }: Question,
  guard: Guard,
): Promise<WitnessAnswer> {
  const proofLines = proof.map((one) => `${one.toString('base64')}\n`).join('');
  const { status, headers, body } = await guardedExchange({
    url: `${url}/add-checkpoint`,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'user-agent': 'sallyport' },
    body: `old ${old}\n${proofLines}\n${note}`,
    guard,
    timeoutMs,
  });
  if (status === 409 && headers['content-type'] === 'text/x.tlog.size') return elsewhere(body);
  if (status === 422) return { outcome: 'inconsistent' };
  if (status !== 200) return { outcome: 'refused', error: `it answered ${status}` };
  // A witness may send lines of other keys; only the one that it is known by counts.
  const opened = openNote(`${note}${body}`, [verifier]);
  const line = opened?.verified.find((one) => one.verifier === verifier)?.line;
  return line === undefined
    ? { outcome: 'refused', error: 'its answer holds no valid cosignature' }
    : { outcome: 'cosigned', line };
}

function elsewhere(body: string): WitnessAnswer {
  const size = /^(0|[1-9]\d{0,14})\n$/.exec(body)?.[1];
  return size === undefined
    ? { outcome: 'refused', error: 'it names no size' }
    : { outcome: 'elsewhere', size: Number(size) };
}
