import type { ControlId, ControlReason } from '../../../shared/contract/compliance.ts';
import { sha256 } from '../../../shared/crypto/hash.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';

const day = 86_400_000;
/** Returns SQL that replaces text in the newest decision on a tool, but not the hash of the decision. */
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

/** Returns one way to cause each reason; `ago` returns a time in the past. */
export const damagesOf = (ago: (ms: number) => string): readonly Damage[] => [
  row('CC-1', 'policies_unreadable', 'a published policy was changed', () => [
    `update policy set definition = '${another}'`,
    // Changes the hash, which is the key of the cache, so that the policies are compiled again.
    "update policy set policy_hash = 'sha256:0'",
  ]),
  row('CC-1', 'no_enforcing_policy', 'every published policy has mode monitor', () => [
    `update policy set definition = replace(definition, '"version":1', '"mode":"monitor","version":1')`,
  ]),
  row('CC-1', 'no_enforcing_policy', 'no policy is published', () => [
    "update policy set lifecycle = 'archived'",
  ]),
  row(
    'CC-1',
    'decision_not_enforced',
    'a denied call was forwarded at an enforcement point',
    () => [
      rewrite('shell', '"enforced":true', '"enforced":false'),
      rewrite('shell', '"point":"preflight"', '"point":"enforcement"'),
    ],
  ),
  row('CC-1', 'decision_without_policy', 'an allow decision names no policy', () => [
    rewrite('pay', '"policy_hash"', '"policy_hush"'),
  ]),
  row('CC-1', 'decision_policy_unknown', 'the policy of an allow decision no longer exists', () => [
    'delete from policy',
  ]),
  row('CC-1', 'decision_contradicted', 'a recorded decision contradicts its policy', () => [
    rewrite('shell', '"decision":"deny"', '"decision":"allow"'),
  ]),
  row('CC-2', 'approval_overdue', 'an approval request is pending after its expiry', () => [
    `update approval set status = 'pending', expires_at = '${ago(3 * 60_000)}'`,
  ]),
  row('CC-2', 'decision_not_in_ledger', 'an approval was granted directly in the database', () => [
    "update approval set event_id = null, event_hash = null, decided_at = '2026-01-01'",
  ]),
  row(
    'CC-2',
    'decision_not_in_ledger',
    'the status of a decided approval differs from the ledger',
    () => ["update approval set status = 'denied'"],
  ),
  row(
    'CC-2',
    'decision_not_in_ledger',
    'the decider of an approval differs from the ledger',
    () => ["update approval set decided_by = 'ben'"],
  ),
  row('CC-2', 'decided_by_requester', 'an approval was decided by its requester', () => [
    "update approval set user_id = ' Anna'",
  ]),
  row('CC-2', 'quorum_unmet', 'an approval has fewer votes than its quorum', () => [
    'update approval set quorum = 2',
  ]),
  row('CC-3', 'ledger_damaged', 'a sealed event was changed', () => [
    rewrite('pay', '"decision":"allow"', '"decision":"deny"'),
  ]),
  row('CC-3', 'ledger_damaged', 'the last event of the ledger was deleted', () => [
    'delete from evidence_row where position = (select max(position) from evidence_row)',
  ]),
  row('CC-3', 'sealing_stuck', 'an event has waited in the outbox for 16 minutes', () => [
    `insert into event_outbox (tenant_id, event_id, event, dead_lettered, created_at)
       values ('default', 'ev_x', 'not yet', true, '${ago(16 * 60_000)}')`,
    // Without this trigger, sealing would move the row from the outbox into the ledger as an unreadable
    // event.
    `create function stay() returns trigger language plpgsql as 'begin return null; end'`,
    `create trigger stay before delete on event_outbox for each row
       when (old.event_id = 'ev_x') execute function stay()`,
  ]),
  row('CC-4', 'secret_unreadable', 'a signing key was replaced by unrelated ciphertext', () => [
    `update signing_key set sealed = (select sealed from install limit 1)
      where purpose = 'passport' or purpose = 'checkpoint'`,
  ]),
  row('CC-4', 'secret_unreadable', 'a notification channel cannot be decrypted', () => [
    "update install set sealed = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'a notification cannot be decrypted', () => [
    "update delivery set sealed = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'the arguments shown to deciders cannot be decrypted', () => [
    "update approval set proposed_args = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'salts cannot be decrypted', () => [
    "update evidence_salt set sealed = '{}'",
  ]),
  row('CC-4', 'secret_unreadable', 'a credential cannot be decrypted', () => [
    `insert into credential (id, tenant_id, name, inject, tools, hosts, sealed, created_by)
       values ('cred_x', 'default', 'x', '{}', '{}', '{}', '{}', 'x')`,
  ]),
  row('CC-4', 'signing_key_old', 'a signing key is 91 days old', () => [
    `update signing_key set created_at = '${ago(91 * day)}' where purpose = 'checkpoint'`,
  ]),
  row('CC-4', 'api_key_old', 'an API key is over a year old', () => [
    `update api_key set created_at = '${ago(366 * day)}' where role = 'auditor'`,
  ]),
  row('CC-4', 'api_key_without_owner', 'an API key has a blank principal', () => [
    "update api_key set principal = ' ' where principal = 'anna'",
  ]),
  row('CC-4', 'api_key_without_owner', 'the agent of an API key does not exist', () => [
    "update api_key set agent_id = 999 where principal = 'anna'",
  ]),
  row('CC-5', 'drift_open', 'a changed tool waits for reapproval', () => [
    "update tool set approval_status = 'reapproval_required' where name = 'pay'",
  ]),
  row(
    'CC-5',
    'tool_not_approved',
    'the manifest of a tool in use differs from the approved manifest',
    () => ["update tool set approved_hash = 'sha256:1' where name = 'pay'"],
  ),
  row('CC-5', 'tool_unregistered', 'a tool in use is not registered', () => [
    "delete from tool where name = 'pay'",
  ]),
  row('CC-5', 'manifest_unknown', 'the manifest of a call is not registered', () => [
    "delete from tool_version where name = 'pay'",
  ]),
  row('CC-5', 'policy_edited', 'a published policy was changed in place', () => [
    `update policy set definition = '${another}'`,
  ]),
  row(
    'CC-5',
    'publication_not_in_ledger',
    'a policy was published directly in the database',
    () => [`update policy set definition = '${another}', policy_hash = '${hashOfAnother}'`],
  ),
  row('CC-6', 'no_delivery', 'no notification channel is installed', () => ['delete from install']),
  row('CC-6', 'no_delivery', 'the last notification was delivered 25 hours ago', () => [
    `update delivery set delivered_at = '${ago(25 * 3_600_000)}'`,
  ]),
  row('CC-6', 'dead_deliveries', 'a notification is dead-lettered', () => [
    "update delivery set status = 'dead' where id = (select min(id) from delivery)",
  ]),
  row('CC-6', 'evidence_trimmed', 'the first event of the ledger was deleted', () => [
    'delete from evidence_row where position = 1',
  ]),
  row('CC-6', 'kill_switches_unreadable', 'a kill switch has an unknown kind', () => [
    'alter table kill_switch drop constraint kill_switch_kind_check',
    `insert into kill_switch (id, tenant_id, kind, reason, armed_by)
       values ('ks_x', 'default', 'block_everything', 'x', 'x')`,
  ]),
];
