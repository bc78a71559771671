/** An admission request of the API server; the field names are those of `AdmissionReview`. */
export interface Request {
  readonly operation: 'CREATE' | 'UPDATE' | 'CONNECT' | 'DELETE';
  readonly subResource?: string;
  readonly object: unknown;
  readonly oldObject?: unknown;
}

/** Returns an `AdmissionReview` with this request as JSON. */
export function review(request: Request): string {
  const resource = { group: '', version: 'v1', resource: 'pods' };
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { uid: 'uid-1', namespace: 'agents', name: 'agent', resource, ...request },
  });
}

/** Returns the codes at the beginning of the messages, sorted and without duplicates. */
export function codesIn(messages: readonly string[]): readonly string[] {
  const codes = messages.map((message) => /^(admission\.[a-z_]+): /.exec(message)?.[1] ?? message);
  return [...new Set(codes)].toSorted();
}
