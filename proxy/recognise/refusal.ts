import { toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { RecognisedRefusal, RefusalForm } from './recognition.ts';

/** Anything thrown while a request was read, as a refusal in the form its client understands. */
export function refusalOf(error: unknown, form: RefusalForm): RecognisedRefusal {
  const { code, message } = toGatewayError(error);
  const refusal = { kind: 'refusal', code, message, form } as const;
  return code === 'internal.unexpected' ? { ...refusal, cause: error } : refusal;
}
