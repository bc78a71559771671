import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../../..');
const launcher = join(root, 'cli/sallyport');

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A folder of policy files, and the `sallyport` command in this folder. */
export interface PolicyFolder {
  readonly path: string;
  write(name: string, text: string | Uint8Array): void;
  /** Runs `sallyport …` in the folder, with the PATH and the given settings only. */
  sallyport(...args: readonly string[]): Promise<Ran>;
  /** Runs a line in a shell that has `sallyport` on its PATH. */
  shell(line: string): Promise<Ran>;
  remove(): void;
}

export function policyFolder(settings: Readonly<Record<string, string>> = {}): PolicyFolder {
  const path = fs.mkdtempSync(join(tmpdir(), 'policies-'));
  const bin = fs.mkdtempSync(join(tmpdir(), 'bin-'));
  fs.symlinkSync(launcher, join(bin, 'sallyport'));
  const env = { PATH: `${bin}:${process.env.PATH}`, ...settings };
  return {
    path,
    write: (name, text) => {
      fs.mkdirSync(dirname(join(path, name)), { recursive: true });
      fs.writeFileSync(join(path, name), text);
    },
    sallyport: (...args) => run(launcher, args, { cwd: path, env }),
    shell: (line) => run('/bin/sh', ['-c', line], { cwd: path, env }),
    remove: () => {
      for (const folder of [path, bin]) fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

function run(
  file: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): Promise<Ran> {
  return new Promise((done) => {
    execFile(file, args, { ...options, maxBuffer: 64 << 20 }, (error, out, err) => {
      done({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, out, err });
    });
  });
}

/**
 * Returns a policy file about refunds: small ones are allowed, medium ones need approval, large
 * ones are denied.
 */
export function refundsPolicy({ small = 100, large = 1000, mode = 'enforce' } = {}): string {
  return `id: refunds
version: 1
mode: ${mode}
applies_to:
  tools: [payments.refund]
rules:
  - name: small
    decision: allow
    reason: refund.small_in_scope
    when:
      all:
        - { path: args.amount, operator: <=, value: ${small} }
  - name: middling
    decision: require_approval
    reason: refund.needs_approval
    approval: { min_role: approver }
    when:
      all:
        - { path: args.amount, operator: ">", value: ${small} }
        - { path: args.amount, operator: <=, value: ${large} }
  - name: large
    decision: deny
    reason: refund.out_of_policy
    when:
      all:
        - { path: args.amount, operator: ">", value: ${large} }
`;
}

/**
 * Returns a case file about refunds. Each case has an amount, a decision, and the reason if it must
 * be compared.
 */
export function refundCases(
  ...cases: readonly (readonly [amount: unknown, decision: string, reason?: string])[]
): string {
  return JSON.stringify({
    cases: cases.map(([amount, decision, reason_code]) => ({
      name: `${amount} ${decision}`,
      action: { tool: 'payments.refund', resource: 'payment:1', args: { amount } },
      expect: { decision, ...(reason_code === undefined ? {} : { reason_code }) },
    })),
  });
}
