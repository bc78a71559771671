// A JSON bundle is one JSON document with a line for each event, so that it can be written and read
// as a stream. Lines in order: start, events, `middle`, chains, `end`, trailer. Each line of a
// list, except the last one, ends with a comma.

/** The start of a JSON bundle; the number rises when the layout changes. */
export const bundleStart = '{"bundle":"sallyport-evidence/1"';
export const bundleMiddle = '],"chains":[';
export const bundleEnd = '],';

interface BundleFacts {
  readonly tenant: string;
  /** Size of the checkpoint's tree. */
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
  /** The hashed text: the event as canonical JSON. */
  readonly canonical: string;
  /**
   * Present in a filtered bundle: the proof of inclusion in the checkpoint's tree, as base64 hashes
   * from this event's leaf to the root (RFC 9162 section 2.1.3.1).
   */
  readonly proof?: readonly string[] | undefined;
}

/** The head of a chain that occurs in the bundle, as of the checkpoint. */
export interface BundleChain {
  readonly chain_id: string;
  readonly seq: number;
  readonly event_hash: string;
}
