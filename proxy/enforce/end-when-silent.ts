const lookEveryMs = 250;
const silentLooks = 4;

interface Stream {
  /** Bytes in both directions so far. */
  bytes(): number;
  end(): void;
}

/**
 * Once the sidecar ends, ends a stream of unknown content as soon as no byte has passed for a
 * second: a message in progress completes, and an idle stream does not delay the end. Returns a
 * function that stops watching.
 */
export function endWhenSilent(stopping: AbortSignal, { bytes, end }: Stream): () => void {
  let timer: NodeJS.Timeout | undefined;
  const watch = () => {
    let before = bytes();
    let looks = 0;
    timer = setInterval(() => {
      const now = bytes();
      looks = now === before ? looks + 1 : 0;
      before = now;
      if (looks >= silentLooks) end();
    }, lookEveryMs);
  };
  if (stopping.aborted) watch();
  else stopping.addEventListener('abort', watch, { once: true });
  return () => {
    clearInterval(timer);
    stopping.removeEventListener('abort', watch);
  };
}
