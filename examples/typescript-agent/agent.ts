// A tool of an agent that refunds a payment: `sallyport run -- node agent.ts AMOUNT`.
import { setTimeout as delay } from 'node:timers/promises';

const paymentsApi = 'http://127.0.0.1:9100';
const holdSeconds = 5;
const approvalSeconds = 3600;

/** The body of a refusal by the sidecar. */
interface Refusal {
  readonly error: string;
  readonly reason_code: string;
  readonly next_steps?: readonly string[];
  readonly approval_request_id?: string;
}

/** Sallyport refused the call. Repeating it unchanged does not help. */
class Denied extends Error {
  readonly nextSteps: readonly string[];

  constructor({ error, reason_code: code, next_steps: nextSteps = [] }: Refusal) {
    super(`Denied (${code}): ${error}`);
    this.nextSteps = nextSteps;
  }
}

/** Performs a call, waits for a human if the policy asks for one, and returns the API's response. */
async function perform(url: string, body: object): Promise<Response> {
  for (;;) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', prefer: `wait=${holdSeconds}` },
      body: JSON.stringify(body),
      // Longer than the hold, so that the client does not give up while a human decides.
      signal: AbortSignal.timeout((holdSeconds + 10) * 1000),
    });
    // The sidecar's own responses name the decision. Every other response is the API's.
    const [decision] = (response.headers.get('sallyport-decision') ?? '').split(';');
    if (response.status === 403 && decision === 'deny') {
      throw new Denied((await response.json()) as Refusal);
    }
    if (response.status !== 202 || decision !== 'require_approval') return response;
    await waitForHuman(response);
    // Repeats the same call unchanged, because an approval covers nothing else.
  }
}

/**
 * Resolves when the approval is decided. The sidecar itself answers requests to the status URL;
 * they need no key.
 */
async function waitForHuman(pending: Response): Promise<void> {
  const { approval_request_id: id } = (await pending.json()) as Refusal;
  console.log(`Waiting for a human: approval ${id}`);
  const giveUpAt = performance.now() + approvalSeconds * 1000;
  while (performance.now() < giveUpAt) {
    const answer = await fetch(pending.headers.get('location') ?? '');
    const { status } = (await answer.json()) as { readonly status: string };
    if (status === 'expired') break;
    if (status !== 'pending') return;
    await delay(Number(pending.headers.get('retry-after')) * 1000);
  }
  throw new Error('No human decided in time. Ask the user before you try again.');
}

/** The tool that the model calls: its result is text for the model. */
async function refund(paymentId: string, amount: number): Promise<string> {
  try {
    const response = await perform(`${paymentsApi}/refunds`, { payment_id: paymentId, amount });
    if (!response.ok) throw new Error(`The payments API answered ${response.status}.`);
    const { refunded } = (await response.json()) as { readonly refunded: number };
    return `Refunded ${refunded}`;
  } catch (error) {
    if (!(error instanceof Denied)) throw error;
    return [error.message, ...error.nextSteps].join('\n- ');
  }
}

console.log(await refund('p1', Number(process.argv[2])));
