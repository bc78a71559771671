const lookEveryMs = 250;
const silentLooks = 4;

interface Stream {
  /** Bytes in both directions so far. */
  bytes(): number;
  end(): void;
}

/**
 * Ends a stream of unknown content at shutdown, as soon as no byte has passed for a second. A
 * message in progress then completes, and an idle stream does not delay the shutdown. Returns a
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
