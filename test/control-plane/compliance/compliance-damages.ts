import type { ControlId, ControlReason } from '../../../shared/contract/compliance.ts';
import { sha256 } from '../../../shared/crypto/hash.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';

const day = 86_400_000;
/** Changes a member of the text of the newest decision on a tool, and adapts its hash. */
export const rewrite = (tool: string, from: string, to: string) =>
  `update evidence_row set canonical = replace(canonical, '${from}', '${to}')
    where tenant_id = 'default' and position =
      (select max(position) from evidence_row where type = 'decision' and tool = '${tool}')`;

interface Damage {
  readonly control: ControlId;
  readonly reason: ControlReason;
  readonly how: string;
  readonly sql: () => readonly string[];
}

const row = (control: ControlId, reason: ControlReason, how: string, sql: Damage['sql']) => ({
  control,
  reason,
  how,
  sql,
});

const another = JSON.stringify({ id: 'p1', version: 1, rules: [] });
const hashOfAnother = sha256(canonicalJson(JSON.parse(another)));

/** One way to cause each reason; `ago` returns a time in the past. */
export const damagesOf = (ago: (ms: number) => string): readonly Damage[] => [
  row('CC-1', 'policies_unreadable', 'a published policy was changed', () => [
    `update policy set definition = '${another}'`,
    // Like a newly started replica, which has no compiled policies.
    "update policy set policy_hash = 'sha256:0'",
  ]),
  row('CC-1', 'no_enforcing_policy', 'what is published only reports', () => [
    `update policy set definition = replace(definition, '"version":1', '"mode":"monitor","version":1')`,
  ]),
  row('CC-1', 'no_enforcing_policy', 'nothing is published', () => [
    "update policy set lifecycle = 'archived'",
  ]),
  row('CC-1', 'mode_not_enforcing', 'the tenant only reports', () => [
    "update tenant set mode = 'monitor'",
  ]),
  row('CC-1', 'decision_not_enforced', 'a refused call went ahead at an enforcement point', () => [
    rewrite('shell', '"enforced":true', '"enforced":false'),
    rewrite('shell', '"point":"preflight"', '"point":"enforcement"'),
  ]),
  row('CC-1', 'decision_without_policy', 'an allow names no policy', () => [
    rewrite('pay', '"policy_hash"', '"policy_hush"'),
  ]),
  row('CC-1', 'decision_policy_unknown', 'the policy that allowed is gone', () => [
    'delete from policy',
  ]),
  row('CC-1', 'decision_contradicted', 'its policy says otherwise of a decision', () => [
    rewrite('shell', '"decision":"deny"', '"decision":"allow"'),
  ]),
  row('CC-2', 'approval_overdue', 'a request waits past its time', () => [
    `update approval set status = 'pending', expires_at = '${ago(3 * 60_000)}'`,
  ]),
  row('CC-2', 'decision_not_in_ledger', 'an approval was granted in the table', () => [
    "update approval set event_id = null, event_hash = null, decided_at = '2026-01-01'",
  ]),
  row('CC-2', 'decision_not_in_ledger', 'a denial was turned into a grant', () => [
    "update approval set status = 'denied'",
  ]),
  row('CC-2', 'decision_not_in_ledger', 'somebody else is said to have decided', () => [
    "update approval set decided_by = 'ben'",
  ]),
  row('CC-2', 'decided_by_requester', 'the requester decided', () => [
    "update approval set user_id = ' Anna'",
  ]),
  row('CC-2', 'quorum_unmet', 'fewer agreed than were asked for', () => [
    'update approval set quorum = 2',
  ]),
  row('CC-3', 'ledger_damaged', 'a sealed event was changed', () => [
    rewrite('pay', '"decision":"allow"', '"decision":"deny"'),
  ]),
  row('CC-3', 'ledger_damaged', 'the end was cut off', () => [
    'delete from evidence_row where position = (select max(position) from evidence_row)',
  ]),
  row('CC-3', 'sealing_stuck', 'an event waits outside for long', () => [
    `insert into event_outbox (tenant_id, event_id, event, dead_lettered, created_at)
       values ('default', 'ev_x', 'not yet', true, '${ago(16 * 60_000)}')`,
    // Otherwise it would be sealed as an unreadable event.
    `create function stay() returns trigger language plpgsql as 'begin return null; end'`,
    `create trigger stay before delete on event_outbox for each row
       when (old.event_id = 'ev_x') execute function stay()`,
  ]),
  row('CC-4', 'secret_unreadable', 'a signing key was taken from elsewhere', () => [
    `update signing_key set sealed = (select sealed from install limit 1)
      where purpose = 'passport' or purpose = 'checkpoint'`,
  ]),
  row('CC-4', 'secret_unreadable', 'the channel does not open', () => [
    "update install set sealed = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'a message does not open', () => [
    "update delivery set sealed = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'arguments for deciders do not open', () => [
    "update approval set proposed_args = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'salts do not open', () => [
    "update evidence_salt set sealed = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'a credential does not open', () => [
    `insert into credential (id, tenant_id, name, inject, tools, hosts, sealed, created_by)
       values ('cred_x', 'default', 'x', '{}', '{}', '{}', '{}', 'x')`,
  ]),
  row('CC-4', 'signing_key_old', 'a signing key is 91 days old', () => [
    `update signing_key set created_at = '${ago(91 * day)}' where purpose = 'checkpoint'`,
  ]),
  row('CC-4', 'api_key_old', 'an API key is over a year old', () => [
    `update api_key set created_at = '${ago(366 * day)}' where role = 'auditor'`,
  ]),
  row('CC-4', 'api_key_without_owner', 'an API key stands for nobody', () => [
    "update api_key set principal = ' ' where principal = 'anna'",
  ]),
  row('CC-4', 'api_key_without_owner', 'the agent of a key is gone', () => [
    "update api_key set agent_id = 999 where principal = 'anna'",
  ]),
  row('CC-5', 'drift_open', 'a tool changed and waits', () => [
    "update tool set approval_status = 'reapproval_required' where name = 'pay'",
  ]),
  row('CC-5', 'tool_not_approved', 'a tool in use is another than was approved', () => [
    "update tool set approved_hash = 'sha256:1' where name = 'pay'",
  ]),
  row('CC-5', 'tool_unregistered', 'a tool in use is not registered', () => [
    "delete from tool where name = 'pay'",
  ]),
  row('CC-5', 'manifest_unknown', 'the manifest of a call is not registered', () => [
    "delete from tool_version where name = 'pay'",
  ]),
  row('CC-5', 'policy_edited', 'a published policy was changed in place', () => [
    `update policy set definition = '${another}'`,
  ]),
  row('CC-5', 'publication_not_in_ledger', 'a policy was published in the table', () => [
    `update policy set definition = '${another}', policy_hash = '${hashOfAnother}'`,
  ]),
  row('CC-6', 'no_delivery', 'no channel is installed', () => ['delete from install']),
  row('CC-6', 'no_delivery', 'the last message arrived yesterday', () => [
    `update delivery set delivered_at = '${ago(25 * 3_600_000)}'`,
  ]),
  row('CC-6', 'dead_deliveries', 'a message is dead', () => [
    "update delivery set status = 'dead' where id = (select min(id) from delivery)",
  ]),
  row('CC-6', 'evidence_trimmed', 'the beginning of the ledger is gone', () => [
    'delete from evidence_row where position = 1',
  ]),
  row('CC-6', 'kill_switches_unreadable', 'a kill switch says nothing', () => [
    'alter table kill_switch drop constraint kill_switch_kind_check',
    `insert into kill_switch (id, tenant_id, kind, reason, armed_by)
       values ('ks_x', 'default', 'block_everything', 'x', 'x')`,
  ]),
];
