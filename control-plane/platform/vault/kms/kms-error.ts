/**
 * Thrown if a request to the KMS failed. The message is for the operator and contains no text of
 * the response.
 */
export class KmsError extends Error {
  override readonly name = 'KmsError';
}
