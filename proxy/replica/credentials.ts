import type { Log } from '../../shared/base/log.ts';
import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { compileGlob } from '../../shared/glob/glob.ts';
import { globsCertainlyIntersect } from '../../shared/glob/glob-intersection.ts';

/**
 * Budget for one intersection of globs, about 2 ms. The intersection is computed again for each
 * message.
 */
const stepsPerCall = 200_000;

interface Held {
  readonly credential: Omit<HeldCredential, 'secret'>;
  /** Stored as bytes, because bytes can be wiped; a string stays in memory until it is garbage-collected. */
  readonly secret: Buffer;
  readonly hosts: ReadonlySet<string>;
  readonly matchesTool: (tool: string) => boolean;
}

/** The tools and hosts of a credential. */
interface BoundCredential {
  readonly hosts: readonly string[];
  readonly matchesTool: (tool: string) => boolean;
}

type MaybeLater<Value> = Value | Promise<Value>;

interface CredentialsOptions {
  readonly fetch: () => Promise<{
    readonly credentials: readonly HeldCredential[];
    readonly version: number;
  }>;
  /** The current version according to the snapshot. */
  readonly currentVersion: () => string;
  readonly log: Log;
}

/**
 * The credentials of this sidecar's agent, in memory only. When the snapshot names another version,
 * the credentials are unusable until they have been fetched again.
 */
export class Credentials {
  readonly #options: CredentialsOptions;
  #held: readonly Held[] = [];
  /** Number of drops: a fetch that began before a drop is discarded. */
  #drops = 0;
  /** The version that was current when the held credentials were requested. */
  #version: string | undefined;
  #fetching: Promise<void> | undefined;
  #failures = 0;

  constructor(options: CredentialsOptions) {
    this.#options = options;
  }

  /** Compares for equality only, because removing a credential may make the version smaller. */
  get isCurrent(): boolean {
    return this.#version === this.#options.currentVersion();
  }

  /** Number of failed fetches. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * Fetches the credentials if the snapshot names another version. Never rejects: bound calls are
   * refused until a fetch succeeds.
   */
  refresh(): Promise<void> {
    if (this.isCurrent) return Promise.resolve();
    this.#wipe();
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
    try {
      const askedFor = this.#options.currentVersion();
      const drops = this.#drops;
      const { credentials } = await this.#options.fetch();
      if (drops !== this.#drops) return;
      this.#held = credentials.map(prepare);
      this.#version = askedFor;
    } catch (error) {
      this.#failures += 1;
      this.#options.log.warn({ err: error }, 'credentials could not be fetched');
    }
  }

  /**
   * The credential for a call to a bound host, if there is one. Returned at once if the held
   * credentials are current. Otherwise returns a promise, which rejects with
   * `credential.unavailable` if they cannot be fetched.
   */
  forCall(tool: string, binding: Binding): MaybeLater<HeldCredential | undefined> {
    const find = () =>
      opened(
        this.#held.find(({ hosts, matchesTool }) => hosts.has(binding.host) && matchesTool(tool)),
      );
    return this.isCurrent ? find() : this.#upToDate().then(find);
  }

  /**
   * The credential for the handshake and the lists of an MCP server: the one for any tool of this
   * server that the capabilities cover. Undefined if they cover none.
   */
  forServer(
    binding: Binding,
    capabilities: readonly string[],
  ): MaybeLater<HeldCredential | undefined> {
    const find = () => this.#findForServer(binding, capabilities);
    return this.isCurrent ? find() : this.#upToDate().then(find);
  }

  #findForServer(binding: Binding, capabilities: readonly string[]): HeldCredential | undefined {
    const budget = { steps: stepsPerCall };
    const meet = (ones: readonly string[], others: readonly string[]) =>
      globsCertainlyIntersect(ones, others, 'tool', budget);
    const ofServer = [`mcp.${binding.name}.**`, `mcp.${binding.name}/**`];
    const own = capabilities.filter((glob) => meet([glob], ofServer));
    const isReached = ({ credential: { bind } }: Held) =>
      meet(
        own,
        bind.tools.filter((glob) => meet([glob], ofServer)),
      );
    return opened(this.#held.find((held) => held.hosts.has(binding.host) && isReached(held)));
  }

  /** The tools and hosts of the held credentials. */
  bound(): readonly BoundCredential[] {
    return this.#held.map(({ credential: { bind }, matchesTool }) => {
      return { hosts: bind.hosts, matchesTool };
    });
  }

  async #upToDate(): Promise<void> {
    await this.refresh();
    // The version may have changed again during the first fetch.
    await this.refresh();
    if (!this.isCurrent) throw new GatewayError('credential.unavailable');
  }

  /** Wipes all credentials, for example on revocation, and discards a fetch in progress. */
  drop(): void {
    this.#drops++;
    this.#wipe();
    this.#version = undefined;
  }

  #wipe(): void {
    for (const { secret } of this.#held) secret.fill(0);
    this.#held = [];
  }
}

/** The credential with its secret as text, for one call. */
function opened(held: Held | undefined): HeldCredential | undefined {
  return held && { ...held.credential, secret: held.secret.toString('utf8') };
}

function prepare({ secret, ...credential }: HeldCredential): Held {
  const globs = credential.bind.tools.map((glob) => compileGlob(glob, 'tool'));
  return {
    credential,
    // Does not use Node's pool for small buffers, because other buffers share the pool's memory.
    secret: Buffer.alloc(Buffer.byteLength(secret), secret),
    hosts: new Set(credential.bind.hosts),
    matchesTool: (tool) => globs.some((matches) => matches(tool)),
  };
}
