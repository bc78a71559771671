import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { AgentAnswer, AgentTask } from './agent.ts';

/** The agent as its parent sees it. */
export interface AgentProcess {
  do(task: AgentTask): Promise<AgentAnswer>;
  close(): void;
}

interface Reply {
  readonly id?: number;
  readonly ready?: true;
  readonly answer?: AgentAnswer;
  readonly error?: string;
}

/** Starts the agent with nothing but proxy and CA variables in its environment. */
export async function startAgent(env: Readonly<Record<string, string>>): Promise<AgentProcess> {
  const child = fork(fileURLToPath(new URL('./agent.ts', import.meta.url)), {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve());
    child.once('exit', (code) => reject(new Error(`the agent ended with code ${code}`)));
  });
  return { do: talk(child), close: () => void child.kill() };
}

function talk(child: ChildProcess): AgentProcess['do'] {
  let last = 0;
  return (task) => {
    last += 1;
    const id = last;
    return new Promise((resolve, reject) => {
      const onMessage = (reply: Reply) => {
        if (reply.id !== id) return;
        child.off('message', onMessage);
        if (reply.answer === undefined) reject(new Error(reply.error));
        else resolve(reply.answer);
      };
      child.on('message', onMessage);
      child.send({ id, task });
    });
  };
}
