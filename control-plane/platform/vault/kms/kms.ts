/** A key management service that creates master keys and decrypts them. */
export interface Kms {
  /** Service and key, without secrets; stored with the keys that it wrapped. */
  readonly name: string;
  /** A new master key of 32 bytes, and its wrapped form for storage. */
  makeKey(): Promise<{ readonly key: Buffer; readonly wrapped: string }>;
  unwrap(wrapped: string): Promise<Buffer>;
  /** Wraps the stored form again under the current version of the service's own key. */
  rewrap(wrapped: string): Promise<string>;
}
