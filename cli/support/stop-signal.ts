const sameSignalMs = 1_000;

/**
 * Resolves at the first SIGINT or SIGTERM. Under npm, one Ctrl-C arrives as two signals, from the
 * terminal and from npm. Therefore, a further signal ends the process immediately only if it
 * arrives more than a second after the first one.
 */
export function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let firstAtMs: number | undefined;
    const onSignal = () => {
      firstAtMs ??= performance.now();
      resolve();
      if (performance.now() - firstAtMs > sameSignalMs) process.exit(130);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
