import { createHash } from 'node:crypto';
import { importPublicJwk, type PublicJwk, type VerificationKey } from '../../crypto/signing-key.ts';
import { openCheckpoint, type TreeHead } from '../checkpoint.ts';
import { verifyLedger } from '../verification/verify.ts';
import { PartialCheck, toRow } from './partial.ts';
import { type ExportFile, MalformedBundle, readBundle } from './read.ts';
import { type ExportProblem, type ExportReport, wholeProblem } from './report.ts';
import { type ExportStatement, type ExportTrailer, verifyStatement } from './statement.ts';
import { isWholeTrailer, readTrailer, trailerBytesMax } from './trailer.ts';

/** Keys and checkpoints that the caller has from other sources. */
export interface ExportTrust {
  /** Thumbprints of keys that the caller trusts to sign exports. */
  readonly thumbprints: ReadonlySet<string>;
  /** Keys that are used in addition to those in the export. These keys need not be trusted. */
  readonly jwks: readonly PublicJwk[];
  /** An earlier checkpoint of the same ledger. */
  readonly checkpoint?: string | undefined;
}

/** Bytes at the start of an export that identify its format. */
const headBytes = 256;

/**
 * Verifies an export with the caller's keys: that all of its bytes were signed and, for a JSON
 * bundle, every event, link and proof. Uses constant memory.
 */
export async function verifyExport(file: ExportFile, trust: ExportTrust): Promise<ExportReport> {
  const head = Buffer.from(await file.read(0, Math.min(headBytes, file.size))).toString('utf8');
  const tail = await file.read(Math.max(0, file.size - trailerBytesMax), file.size);
  const trailer = readTrailer(tail, head);
  if (trailer === undefined) return truncatedReport();
  const keys = knownKeys(trust.jwks, trailer.statement.keys);
  const { problems, signer } = await verifyEnvelope(file, trailer, keys);
  const found = await verifyContent(file, trailer.statement, {
    jwks: [...keys.values()].map(({ jwk }) => jwk),
    outside: trust.checkpoint,
  });
  // Problems with events come first, because they are more specific than altered bytes.
  const all = [...found.problems, ...problems].slice(0, 100);
  const { tenant, format, created_at, filters } = trailer.statement;
  return {
    ok: all.length === 0,
    trusted: signer !== null && trust.thumbprints.has(signer),
    signed_by: signer,
    tenant,
    format,
    created_at,
    filters,
    complete: isComplete(trailer.statement),
    events: found.events,
    chains: found.chains,
    checkpoint: found.checkpoint,
    anchored: found.anchored,
    problem: all[0] ?? null,
    problems: all,
  };
}

function truncatedReport(): ExportReport {
  const message = 'it has no signed end: it is truncated or not an export';
  const problem = wholeProblem('broken_off', message);
  return {
    ok: false,
    trusted: false,
    signed_by: null,
    tenant: '',
    format: null,
    created_at: '',
    filters: {},
    complete: false,
    events: 0,
    chains: 0,
    checkpoint: null,
    anchored: false,
    problem,
    problems: [problem],
  };
}

interface KnownKey {
  readonly jwk: PublicJwk;
  readonly key: VerificationKey;
}

/** Keys by computed thumbprint. Invalid keys are skipped. */
function knownKeys(...sets: readonly (readonly PublicJwk[])[]): ReadonlyMap<string, KnownKey> {
  const known = new Map<string, KnownKey>();
  for (const jwk of sets.flat()) {
    try {
      const key = importPublicJwk(jwk);
      known.set(key.kid, { jwk: { ...jwk, kid: key.kid }, key });
    } catch {
      // Skips a key that no signature can use.
    }
  }
  return known;
}

/** Verifies that a known key signed exactly these bytes of content and trailer. */
async function verifyEnvelope(
  file: ExportFile,
  trailer: ExportTrailer,
  keys: ReadonlyMap<string, KnownKey>,
): Promise<{ readonly problems: readonly ExportProblem[]; readonly signer: string | null }> {
  const { statement, signature } = trailer;
  const problems: ExportProblem[] = [];
  const restBytes = file.size - statement.bytes;
  const isPlaced = restBytes > 0 && restBytes <= trailerBytesMax && statement.bytes >= 0;
  const rest = isPlaced ? await file.read(statement.bytes, file.size) : undefined;
  if (rest === undefined || !isWholeTrailer(trailer, rest)) {
    problems.push(wholeProblem('altered', 'its end differs from the signed end'));
  } else if ((await contentHash(file, statement.bytes)) !== statement.content_sha256) {
    problems.push(wholeProblem('altered', 'its content differs from the signed content'));
  }
  const known = keys.get(signature.kid)?.key;
  if (known === undefined) {
    const message = `it is signed by key ${signature.kid}, which was not supplied`;
    return { problems: [...problems, wholeProblem('signature_invalid', message)], signer: null };
  }
  if (verifyStatement(trailer, new Map([[known.kid, known]])))
    return { problems, signer: known.kid };
  const message = 'its signature does not verify with the key that it names';
  return { problems: [...problems, wholeProblem('signature_invalid', message)], signer: null };
}

async function contentHash(file: ExportFile, bytes: number): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of file.parts(bytes)) hash.update(part);
  return `sha256:${hash.digest('hex')}`;
}

interface Content {
  readonly problems: readonly ExportProblem[];
  readonly events: number;
  readonly chains: number;
  readonly checkpoint: ExportReport['checkpoint'];
  readonly anchored: boolean;
}

interface Outside {
  readonly jwks: readonly PublicJwk[];
  readonly outside: string | undefined;
}

async function verifyContent(
  file: ExportFile,
  statement: ExportStatement,
  { jwks, outside }: Outside,
): Promise<Content> {
  const opened = openCheckpoint(statement.checkpoint, jwks);
  if (opened === undefined || !isOf(opened.head, statement.tenant)) {
    const message = 'its checkpoint is not signed by a known key for this ledger';
    const problems = [wholeProblem('checkpoint_invalid', message)];
    return { problems, events: 0, chains: 0, checkpoint: null, anchored: false };
  }
  const { head, kid } = opened;
  const root = `sha256:${head.root.toString('hex')}`;
  const checkpoint = { origin: head.origin, size: head.size, root, kid };
  const anchor = outside === undefined ? undefined : openCheckpoint(outside, jwks, head.origin);
  const problems =
    outside !== undefined && anchor === undefined
      ? [wholeProblem('checkpoint_invalid', 'the supplied checkpoint belongs to another ledger')]
      : compareHeads(statement, head, anchor?.head);
  const events = await verifyEvents(file, statement, { head, anchor: anchor?.head });
  return {
    ...events,
    problems: [...events.problems, ...problems],
    checkpoint,
    anchored: anchor !== undefined,
  };
}

/** True if the origin ends with the tenant's name. */
function isOf({ origin }: TreeHead, tenant: string): boolean {
  return origin.endsWith(`/t/${encodeURIComponent(tenant)}`);
}

/**
 * Compares the sizes and roots of the supplied checkpoint and the export's checkpoint. For a whole
 * ledger, the events are compared with the supplied checkpoint as well.
 */
function compareHeads(
  statement: ExportStatement,
  head: TreeHead,
  anchor: TreeHead | undefined,
): readonly ExportProblem[] {
  if (anchor === undefined) return [];
  if (anchor.size > head.size) {
    const message = `the supplied checkpoint covers ${anchor.size} events, the export ${head.size}`;
    return [{ ...wholeProblem('truncated', message), position: head.size + 1 }];
  }
  if (anchor.size === head.size) {
    if (anchor.root.equals(head.root)) return [];
    const message = 'the ledger differs from that of the supplied checkpoint';
    return [{ ...wholeProblem('head_mismatch', message), position: head.size }];
  }
  if (statement.format === 'json' && isComplete(statement)) return [];
  const message = `the supplied checkpoint covers ${anchor.size} events: only an unfiltered JSON bundle can be compared with it`;
  return [wholeProblem('not_comparable', message)];
}

function isComplete({ filters }: ExportStatement): boolean {
  return Object.keys(filters).length === 0;
}

interface Heads {
  readonly head: TreeHead;
  readonly anchor: TreeHead | undefined;
}

type Events = Pick<Content, 'problems' | 'events' | 'chains'>;

async function verifyEvents(
  file: ExportFile,
  statement: ExportStatement,
  heads: Heads,
): Promise<Events> {
  // Other formats have one signature over the whole export; their events have no proofs of their
  // own.
  if (statement.format !== 'json') return { problems: [], events: statement.events, chains: 0 };
  try {
    const found = isComplete(statement)
      ? await verifyWhole(file, statement, heads)
      : await verifyPart(file, statement, heads);
    if (found.events === statement.events) return found;
    const message = `it holds ${found.events} events, and says ${statement.events}`;
    return { ...found, problems: [...found.problems, wholeProblem('malformed', message)] };
  } catch (error) {
    if (!(error instanceof MalformedBundle)) throw error;
    return { problems: [wholeProblem('malformed', error.message)], events: 0, chains: 0 };
  }
}

async function verifyWhole(
  file: ExportFile,
  { tenant, bytes }: ExportStatement,
  { head, anchor }: Heads,
): Promise<Events> {
  const bundle = readBundle(file, { tenant, size: head.size, bytes });
  const anchors =
    anchor === undefined || anchor.size > head.size
      ? []
      : [{ position: anchor.size, treeRoot: `sha256:${anchor.root.toString('hex')}` }];
  const pages = async function* () {
    for await (const page of bundle.pages()) {
      const rows = page.map(toRow);
      const last = rows.at(-1)?.position ?? 0;
      yield { rows, anchors: anchors.splice(0, anchors[0] && anchors[0].position <= last ? 1 : 0) };
    }
  };
  const report = await verifyLedger({
    tenantId: tenant,
    keys: new Map(),
    pages: pages(),
    end: () => ({
      head: { position: head.size, treeRoot: `sha256:${head.root.toString('hex')}` },
      chainEnds: bundle
        .chains()
        .map(({ chain_id: chainId, seq, event_hash: hash }) => ({ chainId, seq, hash })),
    }),
  });
  return report;
}

async function verifyPart(
  file: ExportFile,
  { tenant, bytes, filters }: ExportStatement,
  { head }: Heads,
): Promise<Events> {
  const bundle = readBundle(file, { tenant, size: head.size, bytes });
  const check = new PartialCheck({ tenant, filters, size: head.size, root: head.root });
  for await (const page of bundle.pages()) for (const event of page) check.event(event);
  check.finish(bundle.chains());
  return { problems: check.problems, events: check.events, chains: check.chains };
}
