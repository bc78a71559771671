const lookEveryMs = 250;
const silentLooks = 4;

interface Stream {
  /** What has passed so far, both ways. */
  bytes(): number;
  end(): void;
}

/**
 * Once the sidecar ends, ends a stream of unknown content as soon as nothing has passed for a
 * second: what is being said is finished, and what only stays open is not waited for. Returns how
 * to leave it alone.
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
