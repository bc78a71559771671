import { operators, ruleDecisions } from '../../../../shared/policy/language/definition.ts';
import {
  condition,
  policy,
  rule,
  withApproval,
  withCondition,
  without,
  withRule,
  withWhen,
} from '../../../support/policy/policy-drafts.ts';

const group = 'must be an object with exactly one of all, any: an array of conditions';
const when = 'rules[0].when';
const first = `${when}.all[0]`;

/** The refused input, and the beginning of the message. */
export const refused: readonly (readonly [guarantee: string, input: unknown, message: string])[] = [
  [
    'eq as an operator',
    withCondition({ operator: 'eq' }),
    `${first}.operator: "eq" is not one of ${operators.join(', ')}`,
  ],
  [
    '= as an operator',
    withCondition({ operator: '=' }),
    `${first}.operator: "=" is not one of ${operators.join(', ')}`,
  ],
  [
    'an operator that only an object’s prototype has',
    withCondition({ operator: 'toString' }),
    `${first}.operator: "toString" is not one of ${operators.join(', ')}`,
  ],
  [
    'a condition without operator',
    withWhen({ all: [without(condition(), 'operator')] }),
    `${first}.operator: required: one of ${operators.join(', ')}`,
  ],
  [
    'an unknown decision',
    withRule({ decision: 'permit' }),
    `rules[0].decision: "permit" is not one of ${ruleDecisions.join(', ')}`,
  ],
  [
    'an unknown mode',
    policy({ mode: 'off' }),
    'mode: "off" is not one of monitor, warn, enforce, strict',
  ],
  [
    'a mode that is null',
    policy({ mode: null }),
    'mode: null is not one of monitor, warn, enforce, strict',
  ],
  ['a bare array as when', withWhen([condition()]), `${when}: an array; ${group}`],
  ['both all and any', withWhen({ all: [condition()], any: [condition()] }), `${when}: ${group}`],
  ['neither all nor any', withWhen({}), `${when}: ${group}`],
  [
    'a when that is missing',
    policy({ rules: [without(rule(), 'when')] }),
    `${when}: required: ${group}`,
  ],
  [
    'a group of another name',
    withWhen({ none: [condition()] }),
    `${when}.none: unknown key; known here: all, any`,
  ],
  ['an empty all', withWhen({ all: [] }), `${when}.all: must contain at least one condition`],
  ['an empty any', withWhen({ any: [] }), `${when}.any: must contain at least one condition`],
  [
    'a group that is no array',
    withWhen({ all: condition() }),
    `${when}.all: an object is not an array of conditions`,
  ],
  [
    'a group inside a group',
    withWhen({ all: [{ any: [condition()] }] }),
    `${first}.any: unknown key; known here: path, operator, value`,
  ],
  [
    'a condition that is no object',
    withWhen({ all: ['tool.name'] }),
    `${first}: "tool.name" is not an object with path, operator, value`,
  ],
  [
    'an unknown key of a policy',
    policy({ enabled: true }),
    'enabled: unknown key; known here: id, version, description, mode, applies_to, rules',
  ],
  [
    'an unknown key of a rule',
    withRule({ effect: 'allow' }),
    'rules[0].effect: unknown key; known here: name, decision, reason, approval, when',
  ],
  [
    'an unknown key of a condition',
    withCondition({ not: true }),
    `${first}.not: unknown key; known here: path, operator, value`,
  ],
  [
    'a key that is no identifier',
    policy({ 'a b': 1 }),
    '["a b"]: unknown key; known here: id, version, description, mode, applies_to, rules',
  ],
  [
    '__proto__ as a key',
    JSON.parse('{"id":"a","version":1,"rules":[],"__proto__":{"mode":"monitor"}}'),
    '__proto__: unknown key; known here: id, version, description, mode, applies_to, rules',
  ],
  ['a missing id', without(policy(), 'id'), 'id: required: a string'],
  ['a blank id', policy({ id: '  ' }), 'id: must not be blank'],
  ['a version in words', policy({ version: '1' }), 'version: "1" is not a number'],
  ['a missing version', without(policy(), 'version'), 'version: required: a number'],
  ['an infinite version', policy({ version: Infinity }), 'version: a number that is not finite'],
  ['rules that are no array', policy({ rules: {} }), 'rules: an object is not an array of rules'],
  ['missing rules', without(policy(), 'rules'), 'rules: required: an array of rules'],
  [
    'a rule without name',
    policy({ rules: [without(rule(), 'name')] }),
    'rules[0].name: required: a string',
  ],
  [
    'a rule without reason',
    policy({ rules: [without(rule(), 'reason')] }),
    'rules[0].reason: required: a string',
  ],
  ['an empty reason', withRule({ reason: '' }), 'rules[0].reason: must not be blank'],
  [
    'a reason that would break a header',
    withRule({ reason: 'x\r\nSet-Cookie: a' }),
    'rules[0].reason: contains a control character; remove it',
  ],
  [
    'two rules of one name',
    policy({ rules: [rule(), rule({ decision: 'deny' })] }),
    'rules[1].name: "small" is already the name of rules[0]; use another',
  ],
  [
    'applies_to that is no object',
    policy({ applies_to: ['a'] }),
    'applies_to: an array is not an object with tools, agents',
  ],
  [
    'an unknown scope',
    policy({ applies_to: { users: [] } }),
    'applies_to.users: unknown key; known here: tools, agents',
  ],
  [
    'a tool that is no string',
    policy({ applies_to: { tools: ['a', 5] } }),
    'applies_to.tools[1]: 5 is not a string',
  ],
  [
    'a single tool without an array',
    policy({ applies_to: { tools: 'a' } }),
    'applies_to.tools: "a" is not an array of tools',
  ],
  [
    'a condition without path',
    withWhen({ all: [without(condition(), 'path')] }),
    `${first}.path: required: a string`,
  ],
  [
    'an empty path',
    withCondition({ path: '' }),
    `${first}.path: "" is not a dotted path such as tool.name`,
  ],
  [
    'a path with an empty segment',
    withCondition({ path: 'tool..name' }),
    `${first}.path: "tool..name" is not a dotted path such as tool.name`,
  ],
  [
    'a path of too many segments',
    withCondition({ path: `args${'.a'.repeat(16)}` }),
    `${first}.path: more than 16 segments`,
  ],
  [
    'a condition without value',
    withWhen({ all: [without(condition(), 'value')] }),
    `${first}.value: required: a literal or { "$ref": "<dotted path>" }`,
  ],
  [
    'an object as value',
    withCondition({ value: { ref: 'user.id' } }),
    `${first}.value: an object must be { "$ref": "<dotted path>" } and nothing else`,
  ],
  [
    'an empty object as value',
    withCondition({ value: {} }),
    `${first}.value: an object must be { "$ref": "<dotted path>" } and nothing else`,
  ],
  [
    'a $ref with company',
    withCondition({ value: { $ref: 'user.id', or: 1 } }),
    `${first}.value: an object must be { "$ref": "<dotted path>" } and nothing else`,
  ],
  [
    'a $ref that is no string',
    withCondition({ value: { $ref: ['user.id'] } }),
    `${first}.value.$ref: an array is not a string`,
  ],
  [
    'a $ref that is no path',
    withCondition({ value: { $ref: 'user.' } }),
    `${first}.value.$ref: "user." is not a dotted path such as tool.name`,
  ],
  [
    'a $ref inside a list',
    withCondition({ operator: 'in', value: [{ $ref: 'user.id' }] }),
    `${first}.value[0]: a list must not contain an object`,
  ],
  [
    'in without a list',
    withCondition({ operator: 'in', value: 'a' }),
    `${first}.value: "a" is not an array; in requires one`,
  ],
  [
    'not_in without a list',
    withCondition({ operator: 'not_in', value: null }),
    `${first}.value: null is not an array; not_in requires one`,
  ],
  [
    'a pattern that is no string',
    withCondition({ operator: 'matches', value: 5 }),
    `${first}.value: 5 is not a regular expression given as a string`,
  ],
  [
    'a pattern chosen by the context',
    withCondition({ operator: 'matches', value: { $ref: 'args.p' } }),
    `${first}.value: an object is not a regular expression given as a string`,
  ],
  [
    'approval terms that are no object',
    withApproval('itsm'),
    'rules[0].approval: "itsm" is not an object with channel, min_role, quorum, sla_seconds, grant',
  ],
  [
    'an unknown approval term',
    withApproval({ role: 'admin' }),
    'rules[0].approval.role: unknown key; known here: channel, min_role, quorum, sla_seconds, grant',
  ],
  [
    'an unknown role',
    withApproval({ min_role: 'developer' }),
    'rules[0].approval.min_role: "developer" is not one of approver, admin, owner',
  ],
  [
    'a channel that is no string',
    withApproval({ channel: 1 }),
    'rules[0].approval.channel: 1 is not a string',
  ],
  [
    'a quorum of none',
    withApproval({ quorum: 0 }),
    'rules[0].approval.quorum: 0 is not an integer from 1 to 100',
  ],
  [
    'half a decider',
    withApproval({ quorum: 1.5 }),
    'rules[0].approval.quorum: 1.5 is not an integer from 1 to 100',
  ],
  [
    'a quorum in words',
    withApproval({ quorum: '2' }),
    'rules[0].approval.quorum: "2" is not an integer from 1 to 100',
  ],
  [
    'no time to decide',
    withApproval({ sla_seconds: 0 }),
    'rules[0].approval.sla_seconds: 0 is not an integer from 1 to 2592000',
  ],
  [
    'an array as policy',
    [],
    'policy: an array is not an object with id, version, description, mode, applies_to, rules',
  ],
  [
    'null as policy',
    null,
    'policy: null is not an object with id, version, description, mode, applies_to, rules',
  ],
  ['nothing as policy', undefined, 'policy: not a JSON value'],
  ['a text that is not JSON', '{"id":', 'policy: is a text, but not valid JSON'],
  ['a text encoded twice', JSON.stringify(JSON.stringify(policy())), 'policy: '],
  [
    'a function among the values',
    withCondition({ value: () => true }),
    `${first}.value: not a JSON value`,
  ],
  [
    'a hole in a list',
    withCondition({ operator: 'in', value: new Array(2) }),
    `${first}.value[0]: not a JSON value`,
  ],
  ['a date object', withCondition({ value: new Date(0) }), `${first}.value: not a JSON value`],
  [
    'half of a surrogate pair',
    withCondition({ value: '\ud800' }),
    `${first}.value: a string that contains half of a surrogate pair`,
  ],
  [
    'a number that text cannot hold',
    '{"id":"a","version":1e999,"rules":[]}',
    'version: a number that is not finite',
  ],
  [
    'a whole number that is read as another',
    '{"id":"a","version":9007199254740993,"rules":[]}',
    'version: a whole number beyond 2^53 cannot be stored exactly; send it as a string',
  ],
];
