import type { Pool } from 'pg';
import { Document, isNode } from 'yaml';
import type { JsonObject } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { knownContext } from '../../shared/ledger/privacy/known-context.ts';
import { fillIn, type Hole } from '../../shared/policy/uncertain/placeholder.ts';
import type { Services } from '../core/services.ts';
import { findEvent } from '../ledger/reading/find-event.ts';
import { readSealed } from '../ledger/reading/sealed-text.ts';
import type { SealedDecision } from '../trials/decision-pages.ts';
import { isByPolicy } from '../trials/rejudge.ts';

interface Asked {
  readonly id: string;
  readonly format: 'yaml' | 'json';
}

/** Returns a stored decision as a file with one policy case. */
export async function exportPolicyCase(
  { pool }: Pick<Services, 'pool'>,
  tenantId: string,
  { id, format }: Asked,
): Promise<{ readonly bytes: string; readonly headers: Readonly<Record<string, string>> }> {
  const event = await findDecision(pool, tenantId, id);
  const { file, comments, notes } = caseOf(event);
  const named = (ending: string) => `attachment; filename="${id}.cases.${ending}"`;
  if (format === 'json') {
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'content-disposition': named('json'),
    };
    return { bytes: `${JSON.stringify(file, null, 2)}\n`, headers };
  }
  const document = new Document(file);
  document.commentBefore = notes.map((note) => ` ${note}`).join('\n');
  for (const { path, kind } of comments) {
    const node = document.getIn(['cases', 0, ...path], true);
    if (isNode(node)) node.comment = ` fill in: ${article(kind)} ${kind}`;
  }
  const bytes = document.toString({ lineWidth: 0 });
  return { bytes, headers: { 'content-disposition': named('yaml') } };
}

interface Case {
  readonly file: { readonly cases: readonly JsonObject[] };
  /** Positions in the case that hold a placeholder. */
  readonly comments: readonly Hole[];
  readonly notes: readonly string[];
}

function caseOf(event: SealedDecision): Case {
  const { value, holes, omitted } = fillIn(knownContext(event));
  // A case needs no tenant name: the event does not contain it, and the id identifies the tenant.
  const isWanted = ([root, name]: Hole['path']) => root !== 'tenant' || name !== 'name';
  const context = { ...(value as JsonObject), tenant: { id: event.tenant } };
  const comments = holes
    .filter(({ path }) => isWanted(path))
    .map(({ path, kind }) => ({ path: ['context', ...path], kind }));
  return {
    file: { cases: [{ name: nameOf(event), context, expect: expectationOf(event) }] },
    comments,
    notes: notesOn(event, { isFilled: comments.length > 0, omitted: omitted.filter(isWanted) }),
  };
}

function nameOf({ decision, tool, id }: SealedDecision): string {
  const called = (tool ?? '').slice(0, 100).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ');
  return [decision, called.toWellFormed(), id].join(' ');
}

/**
 * Returns the result that the case expects. A case tests policies, so a later approval is not part
 * of it.
 */
function expectationOf({ decision, reason_code, data }: SealedDecision): JsonObject {
  const { matched_rules } = data;
  const rules = Array.isArray(matched_rules) ? { matched_rules } : {};
  return isSatisfied({ decision, reason_code })
    ? { decision: 'require_approval', ...rules }
    : { decision, reason_code, ...rules };
}

function isSatisfied({ decision, reason_code }: Pick<SealedDecision, 'decision' | 'reason_code'>) {
  return decision === 'allow' && reason_code === 'approval.satisfied';
}

function notesOn(
  event: SealedDecision,
  { isFilled, omitted }: { readonly isFilled: boolean; readonly omitted: readonly Hole['path'][] },
): readonly string[] {
  const { id, occurred_at: time, data } = event;
  const left = omitted.map((path) => path.join('.')).join(', ');
  return [
    `Evidence event ${id} of ${time}.`,
    ...(isByPolicy(event)
      ? []
      : ['Policies were not evaluated for this decision, so a policy case does not reproduce it.']),
    ...(isSatisfied(event) ? ['A human had approved the action; policies asked for that.'] : []),
    ...(data.mode === 'warn' && event.decision === 'warn'
      ? ['Decided in mode warn, in which a denial becomes a warning.']
      : []),
    ...(isFilled ? ['Argument values are not stored: replace the placeholders marked below.'] : []),
    ...(left === '' ? [] : [`Not in the event, and perhaps in the context: ${left}.`]),
  ];
}

function article(kind: string): string {
  return /^[aeiou]/.test(kind) ? 'an' : 'a';
}

async function findDecision(pool: Pool, tenantId: string, id: string): Promise<SealedDecision> {
  const { canonical } = await findEvent(pool, tenantId, id);
  const event = readSealed(canonical);
  if (event.type !== 'decision') throw new GatewayError('evidence.not_a_decision');
  return event;
}
