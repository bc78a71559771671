/** The KMS did not do what it was asked. The message is for the operator, and holds no answer of it. */
export class KmsError extends Error {
  override readonly name = 'KmsError';
}
