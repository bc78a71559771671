/** The database cannot be used. The message is for the operator: what is wrong and what to do. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}
