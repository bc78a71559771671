// The JSON bundle is one JSON document in which every event has a line of its own, so that it can
// be written and read without holding it in memory. Its lines, in order: the start, the events,
// `middle`, the chains, `end`, and the trailer. Lines of a list but the last end with a comma.

/** What a JSON bundle begins with; the number rises when the layout changes. */
export const bundleStart = '{"bundle":"sallyport-evidence/1"';
export const bundleMiddle = '],"chains":[';
export const bundleEnd = '],';

interface BundleFacts {
  readonly tenant: string;
  /** Of the tree that the checkpoint is of. */
  readonly size: number;
}

export function startLine({ tenant, size }: BundleFacts): string {
  return `${bundleStart},"tenant":${JSON.stringify(tenant)},"size":${size},"events":[`;
}

/** An event of a bundle. */
export interface BundleEvent {
  readonly position: number;
  readonly prev_hash: string;
  /** `sha256:` over `prev_hash`, a line feed and `canonical`. */
  readonly event_hash: string;
  /** The text that was hashed: the event as JSON in its canonical form. */
  readonly canonical: string;
  /**
   * Where the bundle does not hold every event: hashes, base64, that lead from this event's leaf
   * to the root of the checkpoint (RFC 9162, section 2.1.3.1).
   */
  readonly proof?: readonly string[] | undefined;
}

/** Where a chain that occurs in the bundle ended at the checkpoint. */
export interface BundleChain {
  readonly chain_id: string;
  readonly seq: number;
  readonly event_hash: string;
}
