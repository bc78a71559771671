/** What a tenant keeps of the arguments of calls. */
export interface ArgumentsSetting {
  /** `digest`: a salted digest and the shape. `redacted`: beside these, encrypted, what redaction leaves. */
  readonly keep: 'digest' | 'redacted';
  /** Names, or dotted paths, of fields whose values are never kept. */
  readonly sensitiveFields: readonly string[];
}

export const digestOnly: ArgumentsSetting = { keep: 'digest', sensitiveFields: [] };
