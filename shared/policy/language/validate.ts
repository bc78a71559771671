import type { JsonObject, JsonValue } from '../../base/json.ts';
import { finish, type Steps } from '../../base/steps.ts';
import { modes } from '../../vocabulary/action.ts';
import { grantBounds, grantScopes } from '../../vocabulary/grant-terms.ts';
import { approvalRoles, type PolicyDefinition, ruleDecisions } from './definition.ts';
import { policyLimits as limits } from './definition-limits.ts';
import { joinPath, parseJson, refuse, show, snapshotJson } from './json-bounds.ts';
import { isToolGlob } from './scope.ts';
import { readInteger, readLabel, readList, readObject, readOneOf, readText } from './shape.ts';
import { checkCondition, type PatternBudget } from './validate-condition.ts';

const definitionKeys = ['id', 'version', 'description', 'mode', 'applies_to', 'rules'];
const scopeKeys = ['tools', 'agents'];
const ruleKeys = ['name', 'decision', 'reason', 'approval', 'when'];
const approvalKeys = ['channel', 'min_role', 'quorum', 'sla_seconds', 'grant'];
const grantKeys = ['max_uses', 'max_ttl_seconds', 'scope'];
const groupForm = 'must be an object with exactly one of all, any: an array of conditions';

/**
 * Parses an untrusted policy: a PolicyDefinition or its JSON text. Returns a copy exactly as
 * submitted, without defaults, because `policyHash` covers that form. Throws `policy.invalid`; the
 * message names the path and, for enums, the allowed words.
 */
export function parsePolicy(input: unknown): PolicyDefinition {
  return finish(parsePolicyInSteps(input));
}

/** Like `parsePolicy`, one rule per step. */
export function* parsePolicyInSteps(input: unknown): Steps<PolicyDefinition> {
  const policy = snapshotJson(typeof input === 'string' ? parseJson(input) : input);
  yield;
  yield* checkDefinition(policy);
  return policy as JsonValue & PolicyDefinition;
}

function* checkDefinition(policy: JsonValue): Steps<void> {
  const { id, version, description, mode, applies_to, rules } = readObject(
    policy,
    '',
    definitionKeys,
  );
  readLabel(id, 'id', limits.idLength);
  if (version === undefined) refuse('version', 'required: a number');
  if (typeof version !== 'number') refuse('version', `${show(version)} is not a number`);
  if (description !== undefined) readText(description, 'description', limits.descriptionLength);
  if (mode !== undefined) readOneOf(mode, 'mode', modes);
  if (applies_to !== undefined) checkScope(applies_to);
  yield* checkRules(rules);
}

function checkScope(scope: JsonValue): void {
  const lists = readObject(scope, 'applies_to', scopeKeys);
  for (const key of scopeKeys) {
    const list = lists[key];
    if (list === undefined) continue;
    const path = joinPath('applies_to', key);
    const entries = readList(list, path, { max: limits.scopeEntries, of: key }).map(
      (entry, index) => readLabel(entry, `${path}[${index}]`, limits.scopeEntryLength),
    );
    if (entries.filter(isToolGlob).length > limits.scopeGlobs) {
      refuse(path, `more than ${limits.scopeGlobs} globs`);
    }
  }
}

function* checkRules(value: JsonValue | undefined): Steps<void> {
  const firstByName = new Map<string, number>();
  const budget = { left: limits.patternInstructions };
  const rules = readList(value, 'rules', { max: limits.rules, of: 'rules' });
  for (const [index, item] of rules.entries()) {
    const path = `rules[${index}]`;
    const rule = readObject(item, path, ruleKeys);
    const name = readLabel(rule.name, joinPath(path, 'name'), limits.nameLength);
    const first = firstByName.get(name);
    if (first !== undefined) {
      refuse(
        joinPath(path, 'name'),
        `${show(name)} is already the name of rules[${first}]; use another`,
      );
    }
    firstByName.set(name, index);
    checkRule(rule, path, budget);
    yield;
  }
}

function checkRule(rule: JsonObject, path: string, budget: PatternBudget): void {
  readOneOf(rule.decision, joinPath(path, 'decision'), ruleDecisions);
  readLabel(rule.reason, joinPath(path, 'reason'), limits.reasonLength);
  const { approval } = rule;
  if (approval !== undefined) checkApproval(approval, joinPath(path, 'approval'));
  checkGroup(rule.when, joinPath(path, 'when'), budget);
}

function checkApproval(value: JsonValue, path: string): void {
  const { channel, min_role, quorum, sla_seconds, grant } = readObject(value, path, approvalKeys);
  if (channel !== undefined) readLabel(channel, joinPath(path, 'channel'), limits.channelLength);
  if (min_role !== undefined) readOneOf(min_role, joinPath(path, 'min_role'), approvalRoles);
  if (quorum !== undefined) readInteger(quorum, joinPath(path, 'quorum'), limits.quorum);
  if (sla_seconds !== undefined) {
    readInteger(sla_seconds, joinPath(path, 'sla_seconds'), limits.slaSeconds);
  }
  if (grant !== undefined) checkGrant(grant, joinPath(path, 'grant'));
}

function checkGrant(value: JsonValue, path: string): void {
  const { max_uses, max_ttl_seconds, scope } = readObject(value, path, grantKeys);
  if (max_uses !== undefined)
    readInteger(max_uses, joinPath(path, 'max_uses'), grantBounds.usesMax);
  if (max_ttl_seconds !== undefined) {
    const at = joinPath(path, 'max_ttl_seconds');
    const seconds = readInteger(max_ttl_seconds, at, grantBounds.ttlSecondsMax);
    if (seconds < grantBounds.ttlSecondsMin) {
      refuse(at, `${seconds} is less than ${grantBounds.ttlSecondsMin}`);
    }
  }
  if (scope !== undefined) readOneOf(scope, joinPath(path, 'scope'), grantScopes);
}

function checkGroup(value: JsonValue | undefined, path: string, budget: PatternBudget): void {
  if (value === undefined || Array.isArray(value)) {
    refuse(path, value === undefined ? `required: ${groupForm}` : `an array; ${groupForm}`);
  }
  const group = readObject(value, path, ['all', 'any']);
  const [quantifier, other] = Object.keys(group);
  if (quantifier === undefined || other !== undefined) refuse(path, groupForm);
  const listPath = joinPath(path, quantifier);
  const conditions = readList(group[quantifier], listPath, {
    max: limits.conditionsPerRule,
    of: 'conditions',
  });
  if (conditions.length === 0) refuse(listPath, 'must contain at least one condition');
  conditions.forEach((condition, index) => {
    checkCondition(condition, `${listPath}[${index}]`, budget);
  });
}
