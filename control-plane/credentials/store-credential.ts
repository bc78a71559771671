import type { z } from 'zod';
import { newId } from '../../shared/base/ids.ts';
import type { CredentialInjection } from '../../shared/binding/binding.ts';
import { boundHost } from '../../shared/binding/match.ts';
import type {
  CredentialRecord,
  storeCredential as storeOperation,
} from '../../shared/contract/credentials.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { globsMayMeet } from '../../shared/glob/glob-intersection.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { credentialRecordOf, sealCredential } from './stored-credential.ts';

type Wanted = z.output<NonNullable<(typeof storeOperation)['body']>>;

/** Stores a credential, or a new version of the one of that name; its secret is never shown again. */
export async function storeCredential(
  services: Services,
  { tenantId, principal }: Caller,
  wanted: Wanted,
): Promise<CredentialRecord> {
  const { vault, clock } = services;
  const { name, inject } = wanted;
  const bind = readBind(wanted);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    // The version is part of what the ciphertext is bound to: one writer at a time.
    await lockFor(tx, tenantId, `credential ${name}`);
    const where = { tenantId_name: { tenantId, name } };
    const before = await tx.credential.findUnique({ where });
    const id = before?.id ?? newId('cred', clock.now());
    const version = (before?.version ?? 0) + 1;
    const sealed = sealCredential(
      vault,
      { tenantId, id, version },
      { secret: wanted.secret, inject, bind },
    );
    const now = new Date(clock.now());
    const written = { version, inject: { ...inject }, ...bind, sealed, updatedAt: now };
    const row = await tx.credential.upsert({
      where,
      create: { id, tenantId, name, createdBy: principal, createdAt: now, ...written },
      update: written,
    });
    await notes.event({
      type: 'credential.stored',
      chainId: `credentials:${name}`,
      data: { by: principal, credential_id: id, name, version, inject: { in: inject.in }, bind },
    });
    const globs = [...bind.tools, ...(before?.tools ?? [])];
    const sidecars = await affectedSidecars(tx, tenantId, globs);
    notes.sections('tenant', ...sidecars.map(sidecarSection));
    return row;
  });
  return credentialRecordOf(result);
}

/** Tools and hosts in the form that is compared; throws `credential.invalid` for what can never fit. */
function readBind({ secret, inject, bind }: Wanted): { tools: string[]; hosts: string[] } {
  const problems: string[] = [];
  const injection = injectionProblem(inject, secret);
  if (injection !== undefined) problems.push(injection);
  for (const tool of bind.tools) {
    if (!/^[0-9A-Za-z_*-]+([./:][0-9A-Za-z_*-]+)*$/.test(tool)) {
      problems.push(`bind.tools: "${tool}" is not a tool id or glob`);
    }
  }
  const hosts = bind.hosts.map((host) => {
    const normal = boundHost(host);
    if (normal === undefined) problems.push(`bind.hosts: "${host}" is not one host`);
    return normal ?? host;
  });
  if (problems.length > 0) {
    throw new GatewayError('credential.invalid', { message: `${problems.join('; ')}.` });
  }
  return { tools: [...new Set(bind.tools)], hosts: [...new Set(hosts)] };
}

const neverCarriers =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|host|content-length|expect|http2-settings|(proxy|sallyport|action)-.*)$/i;
const place = '{secret}';

/**
 * What is wrong with putting this secret where the injection says, if anything: a secret that
 * cannot stand there must be refused now, not when the first call fails. Never names the secret.
 */
function injectionProblem(
  { in: where, name, format }: CredentialInjection,
  secret: string,
): string | undefined {
  // A control character ends a header line somewhere; a lone surrogate has no bytes.
  if (/[\p{Cc}\p{Cs}]/u.test(secret)) return 'secret: must not hold control characters';
  if (format !== undefined && format.split(place).length !== 2) {
    return `inject.format: must hold ${place} exactly once`;
  }
  switch (where) {
    case 'bearer':
      return unnamed(where, name) ?? headerValueProblem(secret, format);
    case 'basic':
      return unnamed(where, name) ?? basicProblem(secret, format);
    case 'header':
      if (name === undefined) return 'inject.name: the header must be named';
      if (neverCarriers.test(name)) return `inject.name: ${name} cannot carry a credential`;
      return headerValueProblem(secret, format);
    case 'query':
      return name === undefined ? 'inject.name: the parameter must be named' : undefined;
  }
}

function unnamed(where: string, name: string | undefined): string | undefined {
  return name === undefined
    ? undefined
    : `inject.name: ${where} goes into Authorization; leave name out`;
}

function headerValueProblem(secret: string, format = place): string | undefined {
  const isPrintable = /^[\x20-\x7e]+$/.test(format.replace(place, () => secret));
  const isTrimmed = secret.trim() === secret;
  return isPrintable && isTrimmed
    ? undefined
    : 'secret: must be printable ASCII without space around it to go into a header';
}

/** RFC 7617: the user name ends at the first colon. */
function basicProblem(secret: string, format: string | undefined): string | undefined {
  if (format !== undefined && format.indexOf(':') > format.indexOf(place)) {
    return `inject.format: the user name and a colon go before ${place}`;
  }
  return format?.includes(':') === false
    ? `inject.format: must be user:${place}`
    : secret.length > 4_096
      ? 'secret: is too long for basic'
      : undefined;
}

/**
 * The live sidecars whose agents may call tools that these globs name. Their credentials are
 * invalidated, so that an undecided intersection counts as one.
 */
export async function affectedSidecars(
  tx: Pick<Transaction, 'sidecar' | 'agent'>,
  tenantId: string,
  globs: readonly string[],
): Promise<readonly string[]> {
  const sidecars = await tx.sidecar.findMany({
    where: { tenantId, revokedAt: null },
    select: { id: true, agentId: true },
  });
  const agentIds = [...new Set(sidecars.map(({ agentId }) => Number(agentId)))];
  const agents = await tx.agent.findMany({
    where: { tenantId, id: { in: agentIds.filter(Number.isSafeInteger) } },
    select: { id: true, capabilities: true },
  });
  const reached = new Set(
    agents
      .filter(({ capabilities }) => globsMayMeet(capabilities, globs, 'tool'))
      .map(({ id }) => String(id)),
  );
  return sidecars.filter(({ agentId }) => reached.has(agentId)).map(({ id }) => id);
}

/** Removes a credential with its secret, and answers with what it was. */
export async function removeCredential(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<CredentialRecord> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const where = { tenantId, id };
    const found = await tx.credential.findFirst({ where, select: { name: true } });
    if (found === null) throw new GatewayError('credential.not_found');
    const { name } = found;
    await lockFor(tx, tenantId, `credential ${name}`);
    // Read again under the lock: another caller may have removed it or stored a new version.
    const row = await tx.credential.findFirst({ where });
    if (row === null) throw new GatewayError('credential.not_found');
    await tx.credential.delete({ where: { id } });
    await notes.event({
      type: 'credential.removed',
      chainId: `credentials:${name}`,
      data: { by: principal, credential_id: id, name, version: row.version },
    });
    const sidecars = await affectedSidecars(tx, tenantId, row.tools);
    notes.sections('tenant', ...sidecars.map(sidecarSection));
    return row;
  });
  return credentialRecordOf(result);
}
