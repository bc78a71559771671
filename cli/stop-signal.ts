const sameWishMs = 1_000;

/**
 * Resolves at the first SIGINT or SIGTERM. Ctrl-C below npm arrives twice, from the terminal and
 * from npm, and means one thing; another one later means: at once.
 */
export function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let firstAtMs: number | undefined;
    const onSignal = () => {
      firstAtMs ??= performance.now();
      resolve();
      if (performance.now() - firstAtMs > sameWishMs) process.exit(130);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
