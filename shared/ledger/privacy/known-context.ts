import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { fieldNames } from '../../policy/language/context-fields.ts';
import {
  absent,
  anything,
  type PartialValue,
  readPartial,
} from '../../policy/uncertain/partial-value.ts';
import { parseResource } from '../../vocabulary/resource.ts';
import { shapeLimits } from './arguments.ts';
import { partialArguments } from './arguments-kinds.ts';

/**
 * The parts of a sealed decision that describe its context. They are untrusted, because a sidecar
 * may have written them.
 */
export interface StoredDecision {
  readonly tenant: string;
  readonly agent_id?: string | undefined;
  readonly user_id?: string | undefined;
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly data: JsonObject;
}

const text: PartialValue = { kinds: ['string'] };
const perhapsText: PartialValue = { kinds: ['string', 'absent'] };
// The limits at which sidecars cut text (proxy/records/call-records.ts); shorter text is complete.
const toolCharsMax = 256;
const resourceCharsMax = 1024;

/**
 * Reconstructs the context of a stored decision as far as the event records it. Argument values are
 * not stored, only names and kinds; all other unrecorded parts can have any value.
 */
export function knownContext(event: StoredDecision): PartialValue {
  const { data } = event;
  const args = partialArguments(data.args_shape);
  return objectAt(undefined, {
    tenant: objectAt('tenant', { id: { known: event.tenant }, name: text }),
    agent: agentOf(event),
    user: userOf(event),
    tool: toolOf(event),
    passport: passportOf(event),
    args,
    mcp:
      data.mcp_shape === undefined
        ? absent
        : partialArguments(data.mcp_shape, shapeLimits.mcpNames),
    resource: resourceOf(event, args),
    environment: recorded(data.environment) ?? text,
  });
}

/** An object of the context; its other members can have any value. */
function objectAt(
  path: string | undefined,
  members: Readonly<Record<string, PartialValue>>,
): PartialValue {
  const open = (fieldNames(path) ?? []).map((name) => [name, anything] as const);
  return { members: new Map([...open, ...Object.entries(members)]), others: absent };
}

function recorded(value: JsonValue | undefined): PartialValue | undefined {
  return typeof value === 'string' ? { known: value } : undefined;
}

/**
 * Returns the facts that the event records in `seen`; undefined for older events, which have no
 * `seen`.
 */
function seenIn({ data }: StoredDecision): JsonObject | undefined {
  return isJsonObject(data.seen) ? data.seen : undefined;
}

function agentOf(event: StoredDecision): PartialValue {
  const seen = seenIn(event);
  return objectAt('agent', {
    id: recorded(event.agent_id) ?? text,
    name: seen === undefined ? perhapsText : { known: seen.agent_name },
    goal: goalOf(event.data.goal, seen),
  });
}

/** The stated goal counts only if no goal is registered for the agent. */
function goalOf(stated: JsonValue | undefined, seen: JsonObject | undefined): PartialValue {
  if (seen?.goal_registered === true) return text;
  if (seen !== undefined) return { known: stated };
  return stated === undefined ? perhapsText : text;
}

function userOf(event: StoredDecision): PartialValue {
  const seen = seenIn(event);
  return objectAt('user', {
    id: recorded(event.data.acted_for) ?? recorded(event.user_id) ?? text,
    email: perhapsText,
    role: seen === undefined ? perhapsText : { known: seen.user_role },
  });
}

/** A registered tool has a manifest and a risk tier; an unregistered one has neither. */
function toolOf({ tool, data }: StoredDecision): PartialValue {
  const { manifest_hash: hash, risk_tier: tier } = data;
  const isRegistered = hash !== undefined;
  return objectAt('tool', {
    name: recorded(whole(tool, toolCharsMax)) ?? text,
    current_manifest_hash: isRegistered ? (recorded(hash) ?? anything) : absent,
    risk_tier: isRegistered ? (recorded(tier) ?? anything) : absent,
  });
}

/** A call that reached the policies had a passport of this tenant, or none. */
function passportOf({ tenant, data }: StoredDecision): PartialValue {
  if (data.passport_jti === undefined) return absent;
  return objectAt('passport', { tenant_id: { known: tenant } });
}

function resourceOf({ resource }: StoredDecision, args: PartialValue): PartialValue {
  const customer = readPartial(args, ['customer_id']);
  const name = whole(resource, resourceCharsMax);
  if (name === undefined) return objectAt('resource', { id: text, type: perhapsText });
  const { type, id } = parseResource(name);
  return objectAt('resource', {
    id: { known: id },
    type: { known: type },
    customer_id: type === 'customer' ? customerOf(id, customer) : customer,
  });
}

/** The customer that the resource names, unless an argument names a different customer. */
function customerOf(id: string, stated: PartialValue): PartialValue {
  return 'known' in stated && stated.known === undefined ? { known: id } : perhapsText;
}

/**
 * Returns a text that was recorded unchanged; undefined if it was cut or has replaced characters.
 */
function whole(value: string | undefined, charsMax: number): string | undefined {
  if (value === undefined || value === '-' || value.length >= charsMax) return undefined;
  return value.includes('\u{FFFD}') ? undefined : value;
}
