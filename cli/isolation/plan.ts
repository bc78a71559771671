import type { IsolationErrorCode } from '../../shared/errors/isolation-error-kinds.ts';

/** The command, and the configuration of its namespaces. */
export interface IsolationPlan {
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The sidecar's data directory with its socket. */
  readonly sidecarFolder: string;
  /** The sidecar that is expected at the socket. */
  readonly caSha256: string;
  /** Folders to cover with an empty one. */
  readonly hiddenFolders: readonly string[];
  /** Unix sockets to cover, outside of the hidden folders. */
  readonly hiddenSockets: readonly string[];
}

export type ToInside =
  | { readonly kind: 'plan'; readonly plan: IsolationPlan }
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals };

export type FromInside =
  | { readonly kind: 'failed'; readonly code: IsolationErrorCode; readonly detail?: string }
  | { readonly kind: 'crashed'; readonly message: string };

/** A terminal sends these signals to the command itself, so forwarding would deliver them twice. */
export const fromTerminal = ['SIGINT', 'SIGQUIT'] as const;
export const forwardedSignals = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

export const unshareOptions = [
  '--user',
  '--map-current-user',
  '--keep-caps',
  '--net',
  '--mount',
  '--pid',
  '--ipc',
  '--fork',
  '--kill-child',
] as const;
