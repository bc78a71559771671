import { systemClock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Closing } from '../base/closing.ts';
import type { Identity } from '../base/identity.ts';
import type { Spool, SpoolRecord } from '../spool/spool.ts';

type Moment = 'sidecar.started' | 'sidecar.stopped';

interface Life {
  readonly identity: Identity;
  readonly version: string;
  readonly log: Log;
  readonly closing: Closing;
}

/**
 * Records the start of this run, and its end if the sidecar shuts down cleanly. Two starts without
 * an end between them show that the earlier process died and interrupted the permitted calls that
 * have no outcome.
 */
export function recordLife(spool: Pick<Spool, 'append'>, life: Life): void {
  const note = (moment: Moment) =>
    spool.append(recordOf(moment, life)).catch((err) => {
      life.log.error({ err, type: moment }, 'the sidecar’s own life could not be recorded');
    });
  void note('sidecar.started');
  life.closing.add(() => note('sidecar.stopped'));
}

function recordOf(type: Moment, { identity, version }: Life): SpoolRecord {
  const now = systemClock.now();
  const source = `sidecar:${identity.sidecarId}`;
  return {
    event: {
      agent_id: identity.agentId,
      chain_id: source,
      data: { version },
      id: newId('ev', now),
      occurred_at: new Date(now).toISOString(),
      source,
      type,
      user_id: identity.userId,
    },
  };
}
