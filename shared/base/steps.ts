/** Work cut into short steps, so that a server can handle other requests between two steps. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Runs all steps without interruption, for callers that handle no other requests meanwhile. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}
