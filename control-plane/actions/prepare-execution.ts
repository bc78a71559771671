import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import { buildRequest } from '../../shared/binding/build.ts';
import { authorityKey } from '../../shared/binding/match.ts';
import { splitTarget } from '../../shared/binding/path.ts';
import { requireResource } from '../../shared/binding/resource.ts';
import { buildUpstreamRequest } from '../../shared/binding/upstream.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { withCredential } from '../../shared/upstream/inject.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { bindingForgery, bindingOf } from '../bindings/stored-binding.ts';
import type { Services } from '../core/services.ts';
import { credentialForCall } from '../credentials/held-credentials.ts';
import { toAnswerable } from '../platform/http/errors.ts';

/** Destination of an action, as the ledger records it. */
export interface UpstreamFacts {
  readonly binding: string;
  readonly host: string;
  readonly method: string;
  readonly credential_id?: string | undefined;
}

/** The upstream request for an action, or the reason why none can be built. */
export type PreparedExecution =
  | {
      readonly outgoing: Outgoing;
      readonly secrets: readonly string[];
      readonly facts: UpstreamFacts;
      readonly obstacle?: undefined;
    }
  | { readonly outgoing?: undefined; readonly obstacle: GatewayError };

/**
 * Builds the upstream request before the decision, so that an action that cannot be performed
 * consumes no passport and opens no approval. Never rejects.
 */
export async function prepareExecution(
  services: Services,
  action: Action,
): Promise<PreparedExecution> {
  try {
    const binding = await bindingFor(services, action);
    refuseOtherResource(binding, action);
    const built = buildUpstreamRequest(binding, action.args);
    const host = authorityKey(built.host, built.port);
    const call = { tool: action.tool, host };
    const credential = await credentialForCall(services, action.tenantId, call);
    return {
      outgoing: withCredential(built, credential),
      secrets: secretsOf(credential),
      facts: {
        binding: binding.name,
        host,
        method: built.method,
        ...(credential === undefined ? {} : { credential_id: credential.id }),
      },
    };
  } catch (thrown) {
    const obstacle = toAnswerable(thrown);
    if (obstacle.kind.status >= 500) {
      services.log.error({ err: obstacle }, 'could not prepare a call');
    }
    return { obstacle };
  }
}

async function bindingFor(
  { db, vault, guard }: Services,
  { tenantId, tool }: Action,
): Promise<Binding> {
  const rows = await db.binding.findMany({
    where: { tenantId, protocol: 'http', definition: { path: ['tool'], equals: tool } },
    orderBy: { name: 'asc' },
  });
  const found = rows.flatMap((row) => {
    const binding = bindingOf(row, vault);
    if (binding === undefined) throw guard.forged(bindingForgery(row));
    return binding.tool === tool && binding.upstream !== undefined ? [binding] : [];
  });
  const [binding, other] = found;
  if (binding === undefined) throw new GatewayError('execution.not_configured');
  if (other === undefined) return binding;
  throw new GatewayError('binding.overlap', {
    message: `The bindings ${binding.name} and ${other.name} both have an upstream for ${tool}; keep the upstream in one of them.`,
  });
}

/**
 * Refuses a stated resource that differs from the one derived from the arguments, because policy
 * must judge the resource that the call affects. Sidecars also derive the resource from the
 * arguments, so sidecars and the control plane compute the same digest.
 */
function refuseOtherResource(binding: Binding, { resource, args }: Action): void {
  const meant =
    binding.resource === undefined
      ? splitTarget(buildRequest(binding, args).path).path
      : requireResource(binding.resource, args);
  if (resource === meant) return;
  throw new GatewayError('args.resource_mismatch', {
    message: `The arguments lead to the resource ${meant.slice(0, 300)}, not to the one that the action names.`,
  });
}

function secretsOf(credential: HeldCredential | undefined): readonly string[] {
  return credential === undefined ? [] : [credential.secret];
}
