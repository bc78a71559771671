/** The KMS request failed. The message is for the operator and contains no response text. */
export class KmsError extends Error {
  override readonly name = 'KmsError';
}
