import {
  type NetworkErrorCode,
  networkErrorKinds,
} from '../../shared/errors/network-error-kinds.ts';

/** A difference, a failed test or a failure, with its reason code. */
export interface Problem {
  readonly code: NetworkErrorCode;
  /** The observed fact. Default: the text of the code. */
  readonly detail?: string | undefined;
}

/** Ends a command of `sallyport network`. The message is for the operator. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  readonly code: NetworkErrorCode;

  constructor(code: NetworkErrorCode, detail?: string, options?: ErrorOptions) {
    super(describeProblem({ code, detail }), options);
    this.code = code;
  }
}

/** Formats a problem: its code, the observed fact, and what to do. */
export function describeProblem({ code, detail }: Problem): string {
  const { text, nextStep } = networkErrorKinds[code];
  return `${code}: ${detail ?? text} ${nextStep}`;
}
