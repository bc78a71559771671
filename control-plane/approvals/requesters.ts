import { personsOf } from '../../shared/approval/persons.ts';
import type { Caller } from '../platform/access/caller.ts';

/** Keys of these roles are a machine's: it asks for itself, and not for who made its key. */
const machines: readonly string[] = ['agent', 'gateway', 'sidecar'];

/**
 * Who asks by a request of this caller: none of them may decide on it. A key of a person's role counts as
 * whoever made it, too; an agent's key does not, for else an owner could decide on none of their agents.
 */
export function requestersOf(caller: Caller): readonly string[] {
  const isMachine = machines.includes(caller.role) || caller.agentId !== undefined;
  return isMachine ? [caller.principal] : personsOf(caller);
}
