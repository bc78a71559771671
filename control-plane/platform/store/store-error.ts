/**
 * Thrown if the database cannot be used. The message states the problem and the fix, for the
 * operator.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}
