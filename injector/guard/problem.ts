import {
  type AdmissionCode,
  admissionErrorKinds,
} from '../../shared/errors/admission-error-kinds.ts';

/** Why a request is refused. */
export interface Problem {
  readonly code: AdmissionCode;
  /** Begins with the code; says what is wrong and what to do. */
  readonly message: string;
}

/** `names` are the containers, volumes or annotations that cause the problem. */
export function problem(code: AdmissionCode, names: readonly string[] = []): Problem {
  const where = names.length === 0 ? '' : ` (${names.join(', ')})`;
  return { code, message: `${code}: ${admissionErrorKinds[code].text}${where}` };
}
