import {
  type IsolationErrorCode,
  isolationErrorKinds,
} from '../../shared/errors/isolation-error-kinds.ts';

/** Ends `sallyport run --isolated` before the command starts. The message is for the operator. */
export class IsolationError extends Error {
  override readonly name = 'IsolationError';
  readonly code: IsolationErrorCode;
  readonly detail: string | undefined;

  constructor(code: IsolationErrorCode, detail?: string, options?: ErrorOptions) {
    const { text, nextStep } = isolationErrorKinds[code];
    super(`${code}: ${text}${detail === undefined ? '' : ` ${detail}`} ${nextStep}`, options);
    this.code = code;
    this.detail = detail;
  }
}
