/** Work that is cut into short steps, so that a program can answer others between two of them. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Does all the steps at once: for who has nobody else to answer. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}
