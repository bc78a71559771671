import { hasExpectedDecision, type Step, StepFailed, tour } from './tour.ts';
import type { Platform, World } from './world.ts';

type Print = (line: string) => void;

/** Runs every step and prints its result. Returns true if all steps had the expected results. */
export async function runTour(world: World, platform: Platform, print: Print): Promise<boolean> {
  print(`\n${row(['', 'step', 'decision', 'reason code', 'evidence'])}`);
  let succeeded = true;
  for (const [index, step] of tour.entries()) {
    succeeded = (await runStep(index + 1, step, world, print)) && succeeded;
  }
  return (await tamper(world, platform, print)) && succeeded;
}

async function runStep(number: number, step: Step, world: World, print: Print): Promise<boolean> {
  try {
    const { tool, result } = await step.run(world);
    const seen = await world.newestDecision(tool, step.expected);
    const isExpected = hasExpectedDecision(step, seen);
    print(
      row([
        isExpected ? '✓' : '✗',
        `${number}. ${step.title}`,
        seen.decision,
        seen.reason,
        seen.evidenceId,
      ]),
    );
    print(
      row([
        '',
        `   ${isExpected ? result : `expected ${step.expected.decision}, ${step.expected.reason}`}`,
        '',
        '',
        '',
      ]),
    );
    return isExpected;
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error;
    print(row(['✗', `${number}. ${step.title}`, '', '', '']));
    print(`     ${error.message}`);
    return false;
  }
}

/**
 * Verifies the ledger, then changes one row in the database and checks that verification reports
 * this row.
 */
async function tamper(world: World, { sql }: Platform, print: Print): Promise<boolean> {
  const clean = await world.verifyLedger();
  print(
    `${clean.ok ? '✓' : '✗'}   The ledger verifies: ${clean.events} events, every hash and link recomputed`,
  );

  const [row = {}] = await sql(
    `SELECT tenant_id, position, canonical FROM evidence_row WHERE reason_code = 'refund.out_of_policy' LIMIT 1`,
    [],
  );
  const write = (canonical: unknown) =>
    sql('UPDATE evidence_row SET canonical = $1 WHERE tenant_id = $2 AND position = $3', [
      canonical,
      row.tenant_id,
      row.position,
    ]);
  await sql('ALTER TABLE evidence_row DISABLE TRIGGER USER', []);
  await write(String(row.canonical).replace('"deny"', '"allow"'));
  const tampered = await world.verifyLedger();
  await write(row.canonical);
  await sql('ALTER TABLE evidence_row ENABLE TRIGGER USER', []);
  const named = !tampered.ok && tampered.problem?.position === Number(row.position);
  print(
    `${named ? '✓' : '✗'}   Row ${row.position} was rewritten in the database from deny to allow: verification says ` +
      `${tampered.problem?.kind ?? 'nothing'} at row ${tampered.problem?.position ?? '?'} (the row is restored)`,
  );
  return clean.ok && named;
}

const widths = [1, 68, 17, 24, 36];

function row(cells: readonly string[]): string {
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join('  ')
    .trimEnd();
}
