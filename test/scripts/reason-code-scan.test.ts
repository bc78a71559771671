import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import {
  errorFamily,
  errorKindOf,
  errorKinds,
  isErrorCode,
} from '../../shared/errors/error-kinds.ts';

const root = resolve(import.meta.dirname, '../..');
const codes = Object.keys(errorKinds).filter(isErrorCode);
const families = [...new Set(codes.map(errorFamily))];
const family = `(?:${families.join('|')})`;

// Finds a string method that compares a prefix or a part of a code.
const stringMethod = 'startsWith|endsWith|includes|indexOf|search|match|split';
const byMethod = new RegExp(
  `\\b(?:\\w*[cC]ode|\\w*[rR]eason(?:_code)?)\\)?(?:\\?\\.|\\.)(?:${stringMethod})\\(|\\.startsWith\\(['"\`]${family}\\.['"\`]\\)`,
);
// Finds a regular expression that names a family of codes, or that is applied to a code.
const byPattern = new RegExp(
  `\\/\\^?(?:\\((?:\\?:)?)?(?:\\w+\\|)*${family}(?:\\\\\\.|\\|${family}\\b)[^\\n/]*\\/[a-z]*(?:\\.test|\\.exec|;|,|\\])|\\.(?:test|exec)\\((?:\\w+\\.)*(?:reasonCode|reason_code|errorCode|error\\.code|failure\\.code)\\b`,
);
// Texts that begin like a family of codes but are not reason codes.
const noReasonCode: Readonly<Record<string, readonly string[]>> = {
  'control-plane/evidence/append-event.ts': ["chainId.startsWith('agent:')"],
  'control-plane/ledger/verification/alarm.ts': ["type.startsWith('evidence.')"],
  'control-plane/sidecars/uploaded-event.ts': ['/^(decision|execution'],
  'control-plane/tools/apply-observed-drift.ts': ['/^mcp\\.([^.]+)\\./'],
  'control-plane/tools/misspelt-tools.ts': ['/^mcp\\.[^.]+\\./'],
  'proxy/mcp/bounded-names.ts': ['/^mcp\\.[^.]*\\./'],
  'shared/policy/language/usage-path.ts': ["summed?.startsWith('args.')"],
  'shared/policy/lint/lint-rules.ts': ['/^tool(\\.|$)/'],
  'shared/ledger/siem/record.ts': ['/^evidence\\.(fork|id_conflict)$/', '/^integrity\\./'],
};

interface Source {
  readonly path: string;
  readonly text: string;
}

const sources: readonly Source[] = ['shared', 'proxy', 'control-plane', 'injector', 'cli']
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.includes('generated'))
      .map((name) => join(folder, name)),
  )
  .filter((path) => !path.startsWith('shared/error-kind'))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

function comparisonsIn({ path, text }: Source): string[] {
  const known = noReasonCode[path] ?? [];
  return text
    .split('\n')
    .map((line) => known.reduce((rest, part) => rest.replaceAll(part, ''), line).trim())
    .filter((line) => !/^(?:\/?\*|\/\/)/.test(line))
    .filter((line) => byMethod.test(line) || byPattern.test(line));
}

/** Returns lists of two or more codes in which the source looks up a value. */
function setsIn({ text }: Source): string[] {
  const lists = text.matchAll(
    /(?:new Set(?:<\w+>)?\(|(?:string|ErrorCode)\[\] = |ErrorCode> = )\[([^[\]]*)\]|\[([^[\]]*)\](?: as const)?\)?\.includes\(/g,
  );
  return [...lists]
    .map(([whole, one, other]) => ({ whole, members: quotedIn(one ?? other ?? '') }))
    .filter(({ members }) => members.length > 1 && members.every(isErrorCode))
    .map(({ whole }) => whole);
}

function quotedIn(list: string): string[] {
  return [...list.matchAll(/'([^']*)'/g)].map(([, text]) => text ?? '');
}

it('no source outside the error table compares reason codes by prefix or pattern', () => {
  const found = sources.map((source) => [source.path, comparisonsIn(source)] as const);
  expect(found.filter(([, lines]) => lines.length > 0)).toEqual([]);
});

it('no source outside the error table contains a set of reason codes', () => {
  const found = sources.map((source) => [source.path, setsIn(source)] as const);
  expect(found.filter(([, sets]) => sets.length > 0)).toEqual([]);
});

it.each([
  "if (error.code.startsWith('approval.')) throw error;",
  "const isUpstream = name.startsWith('upstream.');",
  "if (reasonCode.includes('grant')) return;",
  "const [head] = reason_code.split('.');",
  'const ownStatus = /^(?:args|mcp|proxy)(?:\\.|$)/;',
  'if (/^passport\\./.test(text)) return 401;',
  'return unavailable.test(verdict.reasonCode);',
])('the scan finds %s', (text) => {
  expect(comparisonsIn({ path: 'proxy/any.ts', text })).toHaveLength(1);
});

it.each([
  "const outages = new Set(['approval.unavailable', 'passport.claim_unavailable']);",
  "const over: readonly string[] = ['approval.used', 'approval.expired'];",
  "if (['approval.used', 'approval.expired'].includes(code)) return;",
])('the scan finds the set in %s', (text) => {
  expect(setsIn({ path: 'proxy/any.ts', text })).toHaveLength(1);
});

it('the error table has no entry for codes that come from policies', () => {
  expect(errorKindOf('acme.too_risky')).toBeUndefined();
  expect(errorKindOf('toString')).toBeUndefined();
  expect(errorKindOf('upstream.reset')).toMatchObject({ ownStatus: true, isOutcome: true });
});

it('only the reason codes of calls, and credential.reflected, set their own HTTP status', () => {
  const ofCalls = ['args', 'internal', 'mcp', 'proxy', 'rate_limited', 'request', 'upstream'];
  const others = codes.filter((code) => errorKindOf(code)?.ownStatus !== true);
  expect(others.filter((code) => ofCalls.includes(errorFamily(code)))).toEqual([]);
  const kept = codes.filter((code) => errorKindOf(code)?.ownStatus === true);
  expect(kept.filter((code) => !ofCalls.includes(errorFamily(code)))).toEqual([
    'credential.reflected',
  ]);
});

it('the codes of upstream failures are exactly the outcome codes', () => {
  const outcomes = codes.filter((code) => errorKindOf(code)?.isOutcome === true);
  expect(outcomes).toEqual(codes.filter((code) => errorFamily(code) === 'upstream'));
});
