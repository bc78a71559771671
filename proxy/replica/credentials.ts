import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import { GatewayError } from '../../shared/errors.ts';
import { compileGlob } from '../../shared/glob.ts';
import type { Log } from '../../shared/log.ts';

interface Held {
  readonly credential: Omit<HeldCredential, 'secret'>;
  /** Bytes, because they can be wiped; a string stays in memory until it is collected. */
  readonly secret: Buffer;
  readonly hosts: ReadonlySet<string>;
  readonly matchesTool: (tool: string) => boolean;
}

interface CredentialsOptions {
  readonly fetch: () => Promise<{
    readonly credentials: readonly HeldCredential[];
    readonly version: number;
  }>;
  /** The version that the snapshot says is current. */
  readonly currentVersion: () => string;
  readonly log: Log;
}

/**
 * The credentials of this sidecar's agent: in memory only, fetched again whenever the snapshot
 * says that they changed, and not used in between.
 */
export class Credentials {
  readonly #options: CredentialsOptions;
  #held: readonly Held[] = [];
  /** Counts the times that all was forgotten: what was asked for before is not kept after. */
  #drops = 0;
  /** The version that was current when what is held was asked for. */
  #version: string | undefined;
  #fetching: Promise<void> | undefined;
  #failures = 0;

  constructor(options: CredentialsOptions) {
    this.#options = options;
  }

  /** A version names a state, and is no measure: what is removed may make it smaller. */
  get isCurrent(): boolean {
    return this.#version === this.#options.currentVersion();
  }

  /** How often they could not be fetched. */
  get failures(): number {
    return this.#failures;
  }

  /** Fetches if the snapshot has moved on. Never rejects: until it succeeds, bound calls are refused. */
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
   * The credential for a call on a bound host, if there is one. Rejects with
   * `credential.unavailable` while the ones at hand may be out of date.
   */
  async forCall(tool: string, binding: Binding): Promise<HeldCredential | undefined> {
    if (!this.isCurrent) await this.#upToDate();
    return opened(
      this.#held.find(({ hosts, matchesTool }) => hosts.has(binding.host) && matchesTool(tool)),
    );
  }

  /** For what an MCP server is asked besides tool calls: the credential of any of its tools. */
  async forServer(binding: Binding): Promise<HeldCredential | undefined> {
    const prefix = `mcp.${binding.name}.`;
    if (!this.isCurrent) await this.#upToDate();
    return opened(
      this.#held.find(
        ({ hosts, matchesTool, credential }) =>
          hosts.has(binding.host) &&
          (matchesTool(`${prefix}x`) ||
            credential.bind.tools.some((glob) => glob.startsWith(prefix))),
      ),
    );
  }

  async #upToDate(): Promise<void> {
    await this.refresh();
    // They may have changed once more while the former ones came.
    await this.refresh();
    if (!this.isCurrent) throw new GatewayError('credential.unavailable');
  }

  /** Forgets everything, as on revocation; what is being fetched is not kept either. */
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
    // Not from the pool that small buffers share: others would see what is wiped too late.
    secret: Buffer.alloc(Buffer.byteLength(secret), secret),
    hosts: new Set(credential.bind.hosts),
    matchesTool: (tool) => globs.some((matches) => matches(tool)),
  };
}
