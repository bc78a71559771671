import type { Services } from '../core/services.ts';
import { parseDevKeys } from '../platform/access/dev-keys.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { type Assessment, type Control, type Finding, findingOn, insufficient } from './control.ts';
import { openSecrets } from './open-secrets.ts';

const dayMs = 86_400_000;
const signingKeyMaxMs = 90 * dayMs;
const apiKeyMaxMs = 365 * dayMs;

/**
 * CC-4: stored secrets can be decrypted, no key is too old, and no API key lacks an owner or is a
 * development key.
 */
export const keyControl: Control = {
  id: 'CC-4',
  title: 'Credentials and keys',
  frameworks: { soc2: ['CC6.1', 'CC6.6', 'CC6.7'], owasp_mcp: ['MCP01'] },
  async assess(services, tenantId) {
    const { opened, unreadable } = await openSecrets(services, tenantId);
    const signing = await assessSigningKeys(services, tenantId);
    const api = await assessApiKeys(services, tenantId);
    const secrets = findingOn(unreadable, {
      reason: 'secret_unreadable',
      message: 'Stored secrets cannot be decrypted with the current master key.',
      nextStep: 'Restore the master key that they were sealed with, or store these secrets again.',
    });
    return {
      evidence: { secrets_opened: { ...opened }, ...signing.evidence, ...api.evidence },
      findings: [...secrets, ...signing.findings, ...api.findings],
    };
  },
};

async function assessSigningKeys({ db, clock }: Services, tenantId: string): Promise<Assessment> {
  const columns = ['kid', 'purpose', 'createdAt'] as const;
  const keys = await claimedRows(db, 'signing_key').findClaims(columns, {
    where: { tenantId, state: 'active' },
    orderBy: { purpose: 'asc' },
  });
  const oldest = clock.now() - signingKeyMaxMs;
  const old = keys.filter(({ createdAt }) => createdAt.getTime() < oldest);
  const findings: readonly Finding[] = [
    ...findingOn(
      old.map(({ purpose, kid }) => `${purpose} ${kid}`),
      {
        reason: 'signing_key_old',
        message: 'Signing keys have been in use for more than 90 days.',
        nextStep: 'POST /v1/keys/signing/rotate, for each purpose.',
      },
    ),
    ...(keys.length > 0 ? [] : [noSigningKey]),
  ];
  const evidence = {
    active_signing_keys: keys.map(({ kid, purpose, createdAt }) => ({
      kid,
      purpose,
      created_at: createdAt.toISOString(),
    })),
  };
  return { evidence, findings };
}

const noSigningKey = insufficient(
  'Nothing was ever signed for this tenant.',
  'Create a policy or make a call; every sealed event is signed.',
);

async function assessApiKeys(services: Services, tenantId: string): Promise<Assessment> {
  const { db, clock, config } = services;
  const now = new Date(clock.now());
  const columns = ['id', 'principal', 'createdBy', 'agentId', 'createdAt'] as const;
  const keys = await claimedRows(db, 'api_key').findClaims(columns, {
    where: { tenantId, revokedAt: null, OR: [{ expiresAt: null }, { expiresAt: { gt: now } }] },
    orderBy: { id: 'asc' },
  });
  const old = keys.filter(({ createdAt }) => createdAt.getTime() < now.getTime() - apiKeyMaxMs);
  const agents = await workingAgents(services, tenantId);
  const ownerless = keys.filter(
    ({ principal, createdBy, agentId }) =>
      principal.trim() === '' ||
      createdBy.trim() === '' ||
      (agentId !== null && !agents.has(agentId)),
  );
  const development = parseDevKeys(config).filter((key) => key.tenantId === tenantId).length;
  const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id);
  const findings = [
    ...findingOn(idsOf(old), {
      reason: 'api_key_old',
      message: 'API keys in use are older than a year.',
      nextStep: 'Make new ones with POST /v1/keys and revoke these with DELETE /v1/keys.',
    }),
    ...findingOn(idsOf(ownerless), {
      reason: 'api_key_without_owner',
      message: 'API keys have no owner, or an agent that is removed or disabled.',
      nextStep: 'Revoke them with DELETE /v1/keys.',
    }),
    ...(development === 0 ? [] : [developmentKeys(development)]),
  ];
  return { evidence: { api_keys: keys.length, development_keys: development }, findings };
}

async function workingAgents({ db }: Services, tenantId: string): Promise<ReadonlySet<number>> {
  const query = { where: { tenantId, disabledAt: null } };
  const rows = await claimedRows(db, 'agent').findClaims(['id'], query);
  return new Set(rows.map(({ id }) => id));
}

function developmentKeys(count: number): Finding {
  return {
    reason: 'development_keys',
    message: `SALLYPORT_DEV_KEYS supplies ${count} key${count === 1 ? '' : 's'} of this tenant.`,
    nextStep: 'Make keys with POST /v1/keys, and start the control plane without that setting.',
  };
}
