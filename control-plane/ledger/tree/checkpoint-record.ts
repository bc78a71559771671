/** A signed checkpoint of a tenant's ledger. */
export interface Checkpoint {
  /** C2SP signed note, with the cosignatures that witnesses have given so far. */
  readonly note: string;
  readonly size: number;
  /** 32 bytes. */
  readonly root: Buffer;
  /** Thumbprint of the signing key. */
  readonly kid: string;
  /** The signing key, in the format of a note verifier key. */
  readonly vkey: string;
  readonly createdAt: Date;
}

/** A checkpoint as the API and messages show it. */
export function checkpointRecord({ note, size, root, kid, vkey, createdAt }: Checkpoint) {
  const signed = { checkpoint: note, size, root: `sha256:${root.toString('hex')}`, kid, vkey };
  return { ...signed, created_at: createdAt.toISOString() };
}
