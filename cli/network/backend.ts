import type { Chains, RedirectSettings } from './redirect-rules.ts';

export type BackendName = 'nftables' | 'iptables';

/** A program that installs packet filter rules in the network namespace of this process. */
export interface Backend {
  readonly name: BackendName;
  /** True if the program is installed. */
  isInstalled(): Promise<boolean>;
  /** The chains that `install` makes. */
  expected(settings: RedirectSettings): Chains;
  /** Our chains as they are; empty if there are none. */
  find(): Promise<Chains>;
  /** Makes our chains as expected. No packet is forwarded unfiltered meanwhile. */
  install(settings: RedirectSettings): Promise<void>;
  /** Removes our chains and nothing else. */
  remove(): Promise<void>;
  /** Chains that redirect; without them nothing reaches the sidecar. */
  isRedirect(chain: string): boolean;
  /** Chains that reject; without them packets bypass the sidecar. */
  isFilter(chain: string): boolean;
}
