import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import { nameDistance, namedHost } from '../../shared/binding/host-distance.ts';
import type { Identity } from '../base/identity.ts';
import type { RecognisedAction } from '../call/recognition.ts';
import type { Credentials } from '../replica/credentials.ts';
import type { Replica } from '../replica/replica.ts';

const warnEveryMs = 60_000;
const bindingsMax = 1_000;

/** True for a call to a bound host that is sent without a stored credential. */
export function lacksCredential(
  binding: Binding | undefined,
  credential: HeldCredential | undefined,
): binding is Binding {
  return binding !== undefined && binding.protocol !== 'passthrough' && credential === undefined;
}

interface MissingCredentialOptions {
  readonly credentials: Pick<Credentials, 'bound'>;
  readonly clock: Clock;
  readonly log: Log;
}

interface SentCall {
  readonly tool: string;
  /** The upstream's status, if there was a response. */
  readonly status: number | undefined;
}

/**
 * Warns about bound calls that are sent without a stored credential but probably need one: a
 * credential exists for the same host on another port or under another name of this machine, or the
 * upstream answered 401 or 403. Warns once a minute for each binding.
 */
export class MissingCredentials {
  readonly #options: MissingCredentialOptions;
  readonly #warnedAtMs = new Map<string, number>();

  constructor(options: MissingCredentialOptions) {
    this.#options = options;
  }

  report(binding: Binding, { tool, status }: SentCall): void {
    const { clock, log } = this.#options;
    const near = this.#near(binding.host, tool);
    const isRefused = status === 401 || status === 403;
    if (!isRefused && !near.some(({ isSameMachine }) => isSameMachine)) return;
    const nowMs = clock.monotonic();
    const warnedAtMs = this.#warnedAtMs.get(binding.name);
    if (warnedAtMs !== undefined && nowMs - warnedAtMs < warnEveryMs) return;
    // Clears all entries, so that entries of removed bindings do not accumulate. As a result, some
    // warnings are repeated.
    if (this.#warnedAtMs.size >= bindingsMax) this.#warnedAtMs.clear();
    this.#warnedAtMs.set(binding.name, nowMs);
    const { name, host } = binding;
    const fields = {
      binding: name,
      host,
      credential_host: near[0]?.host ?? null,
      status: status ?? null,
    };
    log.warn(
      fields,
      'a bound call was sent without a stored credential: bind one to its tool and host, with the port',
    );
  }

  /** Hosts of stored credentials that may be meant for this call, the likeliest first. */
  #near(host: string, tool: string): readonly NearHost[] {
    const wanted = namedHost(host);
    return this.#options.credentials
      .bound()
      .flatMap(({ hosts, matchesTool }) => {
        const isForTool = matchesTool(tool);
        return hosts.map((other) => nearHost(other, { wanted, isForTool }));
      })
      .filter(({ isForTool, isSameMachine }) => isForTool || isSameMachine)
      .sort(byLikelihood);
  }
}

interface NearHost {
  readonly host: string;
  readonly isForTool: boolean;
  readonly isSamePort: boolean;
  readonly isSameMachine: boolean;
  /** Edit distance between the names. */
  readonly distance: number;
}

function nearHost(
  host: string,
  { wanted, isForTool }: Pick<NearHost, 'isForTool'> & { wanted: ReturnType<typeof namedHost> },
): NearHost {
  const { name, port } = namedHost(host);
  const distance = nameDistance(name, wanted.name);
  const isSamePort = port === wanted.port;
  return { host, isForTool, isSamePort, isSameMachine: distance === 0, distance };
}

/**
 * Sorts hosts of credentials for the same tool first, then hosts with the same port, then by name.
 */
function byLikelihood(one: NearHost, other: NearHost): number {
  if (one.isForTool !== other.isForTool) return one.isForTool ? -1 : 1;
  if (one.isSamePort !== other.isSamePort) return one.isSamePort ? -1 : 1;
  return one.distance === other.distance ? 0 : one.distance - other.distance;
}

interface CredentialDeps {
  readonly credentials: Credentials;
  readonly replica: Pick<Replica, 'agent'>;
  readonly identity: Pick<Identity, 'agentId'>;
}

/**
 * The credential for a call. A response to an MCP server's question gets the server's credential.
 */
export function credentialFor(
  { binding, tool, insteadOf }: RecognisedAction,
  deps: CredentialDeps,
): HeldCredential | undefined | Promise<HeldCredential | undefined> {
  if (binding === undefined) return undefined;
  return insteadOf === undefined
    ? deps.credentials.forCall(tool, binding)
    : credentialForServer(binding, deps);
}

/** The credential for requests to an MCP server that are not calls. */
export function credentialForServer(
  binding: Binding,
  { credentials, replica, identity }: CredentialDeps,
): HeldCredential | undefined | Promise<HeldCredential | undefined> {
  return credentials.forServer(binding, replica.agent(identity.agentId)?.capabilities ?? []);
}
