import { Counter, type Registry } from 'prom-client';

/** Counts rows that were refused because they failed their integrity check. */
export interface ForgeryMeter {
  refused(table: string): void;
}

const tables = [
  'agent',
  'api_key',
  'approval',
  'approval_vote',
  'binding',
  'binding_removal',
  'credential',
  'directory_user',
  'enrolment_token',
  'event_outbox',
  'idempotency',
  'kill_switch',
  'passport',
  'passport_revocation',
  'policy',
  'service_account',
  'sidecar',
  'signing_key',
  'tenant',
  'tool',
  'tool_version',
];

export function createForgeryMeter(registry: Registry): ForgeryMeter {
  const refused = new Counter({
    name: 'sallyport_forged_rows_refused_total',
    help: 'Refusals of rows that give authority and failed their integrity check',
    labelNames: ['table'],
    registers: [registry],
  });
  // Initialises each counter with 0, so that `increase()` of the metric includes the first refusal.
  for (const table of tables) refused.inc({ table }, 0);
  return { refused: (table) => refused.inc({ table }) };
}
