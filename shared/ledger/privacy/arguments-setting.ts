/** The tenant's setting for storing arguments of calls. */
export interface ArgumentsSetting {
  /**
   * `digest`: a salted digest and the shape. `redacted`: additionally the redacted arguments,
   * encrypted.
   */
  readonly keep: 'digest' | 'redacted';
  /** Names, or dotted paths, of fields whose values are never stored. */
  readonly sensitiveFields: readonly string[];
}

export const digestOnly: ArgumentsSetting = { keep: 'digest', sensitiveFields: [] };
