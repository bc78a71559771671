/** A key management service that creates master keys and decrypts them. */
export interface Kms {
  /**
   * Names the service and its key, without secrets. Stored with each master key that this service
   * wrapped.
   */
  readonly name: string;
  /** Creates a master key of 32 bytes. Also returns its wrapped form for storage. */
  makeKey(): Promise<{ readonly key: Buffer; readonly wrapped: string }>;
  unwrap(wrapped: string): Promise<Buffer>;
  /**
   * Wraps a stored master key again, with the current version of the KMS key. Returns the new
   * wrapped form.
   */
  rewrap(wrapped: string): Promise<string>;
}
