import { sidecarSection } from '../../shared/sync/sections.ts';
import type { Replica } from './replica.ts';

/** An approval request and its expiry. */
interface Opened {
  readonly id: number;
  readonly expiresAtMs: number;
}

/** The status of a request. */
interface Standing extends Opened {
  readonly status: string;
  readonly comment?: string | undefined;
}

const keptMax = 1_000;

/**
 * The approval requests that this sidecar opened and that have not arrived over the bus yet. They
 * are kept because the agent may ask for their status immediately. As soon as the replica holds a
 * request, only the replica's status counts.
 */
export class OpenedApprovals {
  readonly #replica: Replica;
  readonly #unheard = new Map<number, Opened>();

  constructor(replica: Replica, sidecarId: string) {
    this.#replica = replica;
    replica.onChange(sidecarSection(sidecarId), () => {
      for (const id of this.#unheard.keys()) if (this.#isHeld(id)) this.#unheard.delete(id);
    });
  }

  add({ id, expiresAtMs }: Opened): void {
    if (this.#isHeld(id)) return;
    this.#unheard.set(id, { id, expiresAtMs });
    const [oldest] = this.#unheard.keys();
    if (this.#unheard.size > keptMax && oldest !== undefined) this.#unheard.delete(oldest);
  }

  /**
   * The status of an approval of this agent; undefined if the agent has no approval with this id.
   */
  standing(id: number): Standing | undefined {
    const unheard = this.#unheard.get(id);
    return this.#replica.approvalById(id) ?? (unheard && { ...unheard, status: 'pending' });
  }

  #isHeld(id: number): boolean {
    return this.#replica.approvalById(id) !== undefined;
  }
}
