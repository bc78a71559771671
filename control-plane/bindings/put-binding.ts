import type { z } from 'zod';
import type { Binding } from '../../shared/binding/binding.ts';
import { checkBinding } from '../../shared/binding/check.ts';
import { boundHost, overlaps } from '../../shared/binding/match.ts';
import type { BindingRecord, putBinding as putOperation } from '../../shared/contract/bindings.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { bindingMac, bindingRecordOf, definitionOf } from './stored-binding.ts';

type Fields = z.output<NonNullable<(typeof putOperation)['body']>>;

/** Stores a binding and replaces an existing one of the same name. */
export async function putBinding(
  services: Services,
  caller: Caller,
  { name, fields }: { readonly name: string; readonly fields: Fields },
): Promise<BindingRecord> {
  const { vault, clock } = services;
  const { tenantId, principal } = caller;
  const binding = readBinding(name, fields);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    // The lock serialises writers, so that none misses an overlap with the binding of another.
    await lockFor(tx, tenantId, 'bindings');
    await refuseOverlap(tx, tenantId, binding);
    await refuseSecondUpstream(tx, tenantId, binding);
    const written = {
      protocol: binding.protocol,
      host: binding.host,
      definition: { ...binding } as object,
      updatedBy: principal,
      updatedAt: new Date(clock.now()),
      mac: bindingMac(vault, { tenantId, binding }),
    };
    const row = await tx.binding.upsert({
      where: { tenantId_name: { tenantId, name } },
      create: { tenantId, name, ...written },
      update: written,
    });
    await notes.rows('binding_removal').remove({ tenantId, name });
    await notes.event({
      type: 'binding.written',
      chainId: `bindings:${name}`,
      tool: binding.tool,
      data: { by: principal, binding: { ...binding } as never },
    });
    notes.sections('bindings');
    return row;
  });
  return bindingRecordOf(result);
}

/** Parses a binding with its host in normalised spelling; throws `binding.invalid`. */
function readBinding(name: string, fields: Fields): Binding {
  const host = boundHost(fields.host);
  if (host === undefined) {
    throw new GatewayError('binding.invalid', {
      message: 'host: must be one host name or IP address, with :port if it is not 80 or 443.',
    });
  }
  const binding = withoutUndefined({ name, ...fields, host });
  const problems = [...checkBinding(binding), ...headerProblems(binding)];
  if (problems.length > 0) {
    throw new GatewayError('binding.invalid', { message: problems.join(' ') });
  }
  return binding;
}

/** Removes `undefined` members, because stored bindings are compared as JSON text. */
function withoutUndefined(binding: Binding): Binding {
  return JSON.parse(JSON.stringify(binding)) as Binding;
}

const secretHeader = /^(authorization|cookie|proxy-authorization|x-api-key)$/i;
const framingHeader = /^(host|content-length|transfer-encoding|connection|upgrade|te|trailer)$/i;

/** Everyone in the tenant can read bindings, so headers must not carry secrets. */
function headerProblems({ upstream }: Binding): string[] {
  return Object.entries(upstream?.headers ?? {}).flatMap(([name, value]) => {
    if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name)) {
      return [`upstream.headers: "${name}" is not a header name.`];
    }
    if (secretHeader.test(name)) {
      return [`upstream.headers: ${name} carries a secret; store it with POST /v1/credentials.`];
    }
    if (framingHeader.test(name)) return [`upstream.headers: ${name} is not for a binding to set.`];
    if (!/^[\x20-\x7e]*$/.test(value)) {
      return [`upstream.headers: the value of ${name} must be printable ASCII.`];
    }
    return [];
  });
}

/**
 * `execute` selects a binding by the tool's name alone, so each tool may have only one binding with
 * an upstream.
 */
async function refuseSecondUpstream(
  tx: Transaction,
  tenantId: string,
  { name, tool, upstream }: Binding,
): Promise<void> {
  if (tool === undefined || upstream === undefined) return;
  const others = await tx.binding.findMany({
    where: { tenantId, name: { not: name }, definition: { path: ['tool'], equals: tool } },
    orderBy: { name: 'asc' },
  });
  const clash = others.find((other) => definitionOf(other).upstream !== undefined);
  if (clash === undefined) return;
  throw new GatewayError('binding.overlap', {
    message: `The binding ${clash.name} already has the upstream of ${tool}.`,
    details: { binding: clash.name },
  });
}

async function refuseOverlap(tx: Transaction, tenantId: string, binding: Binding): Promise<void> {
  const others = await tx.binding.findMany({
    where: { tenantId, host: binding.host, name: { not: binding.name } },
    orderBy: { name: 'asc' },
  });
  const clash = others.find((other) => overlaps(binding, definitionOf(other)));
  if (clash === undefined) return;
  throw new GatewayError('binding.overlap', {
    message: `The binding ${clash.name} already covers the same calls on ${binding.host}.`,
    details: { binding: clash.name },
  });
}

/** Removes a binding, leaves a signed tombstone, and returns the removed binding. */
export async function deleteBinding(
  services: Services,
  { tenantId, principal }: Caller,
  name: string,
): Promise<BindingRecord> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'bindings');
    const where = { tenantId_name: { tenantId, name } };
    const row = await tx.binding.findUnique({ where });
    if (row === null) throw new GatewayError('binding.not_found');
    await tx.binding.delete({ where });
    const { id: eventId } = await notes.event({
      type: 'binding.removed',
      chainId: `bindings:${name}`,
      data: { by: principal, protocol: row.protocol, host: row.host },
    });
    const removedAt = new Date(services.clock.now());
    await notes.rows('binding_removal').put({ tenantId, name, eventId, removedAt });
    notes.sections('bindings');
    return row;
  });
  return bindingRecordOf(result);
}
