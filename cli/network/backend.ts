import type { Chains, RedirectSettings } from './redirect-rules.ts';

export type BackendName = 'nftables' | 'iptables';

/** A program that installs packet filter rules in the network namespace of this process. */
export interface Backend {
  readonly name: BackendName;
  /** True if the program is installed. */
  isInstalled(): Promise<boolean>;
  /** The chains that `install` makes. */
  expected(settings: RedirectSettings): Chains;
  /** Returns our chains as they are installed; empty if there are none. */
  find(): Promise<Chains>;
  /** Installs our chains as `expected` describes them. No packet is forwarded unfiltered meanwhile. */
  install(settings: RedirectSettings): Promise<void>;
  /** Removes our chains and nothing else. */
  remove(): Promise<void>;
  /** True for a chain that redirects packets; without such chains, nothing reaches the sidecar. */
  isRedirect(chain: string): boolean;
  /** True for a chain that rejects packets; without such chains, packets bypass the sidecar. */
  isFilter(chain: string): boolean;
}
