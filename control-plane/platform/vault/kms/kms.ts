/** A key management service that creates master keys and decrypts them. */
export interface Kms {
  /** Service and key, without secrets; stored with each master key that this service wrapped. */
  readonly name: string;
  /** A new master key of 32 bytes, and its wrapped form for storage. */
  makeKey(): Promise<{ readonly key: Buffer; readonly wrapped: string }>;
  unwrap(wrapped: string): Promise<Buffer>;
  /**
   * Wraps a stored master key again with the current version of the KMS key; returns the new
   * wrapped form.
   */
  rewrap(wrapped: string): Promise<string>;
}
