/** A key management service that makes master keys, and gives them back to those it trusts. */
export interface Kms {
  /** Which service and which of its keys, without anything secret; stored beside what it wrapped. */
  readonly name: string;
  /** A new master key of 32 bytes, and the form of it that may be stored. */
  makeKey(): Promise<{ readonly key: Buffer; readonly wrapped: string }>;
  unwrap(wrapped: string): Promise<Buffer>;
  /** The stored form anew, under the present version of the service's own key. */
  rewrap(wrapped: string): Promise<string>;
}
