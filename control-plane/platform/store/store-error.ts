/** The database cannot be used. The message tells the operator the problem and the fix. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}
