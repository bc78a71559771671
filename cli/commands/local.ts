import type { Command } from '@commander-js/extra-typings';
import { examples, exitWith } from './options.ts';

export function declareUp(program: Command): void {
  program
    .command('up')
    .summary('run everything in one process (npm start)')
    .description(
      'Runs the control plane and the sidecar in one process until SIGINT or SIGTERM. Prints a line for each decision: as text on a terminal, as JSON elsewhere.',
    )
    .option('--quiet', 'do not print decisions')
    .addHelpText('after', examples('sallyport up', 'npm start -- --quiet'))
    .action(exitWith(async (options) => (await import('../embedded/up.ts')).up(options)));
}

export function declareDemo(program: Command): void {
  program
    .command('demo')
    .summary('watch calls of an agent being decided, executed and proved')
    .description(
      'Starts Sallyport with a demo agent and demo APIs, and sends calls that are allowed, denied and approved. Everything keeps running until Ctrl-C.',
    )
    .option('--once', 'exit after the last step')
    .addHelpText('after', examples('sallyport demo --once'))
    .action(exitWith(async (options) => (await import('../demo/demo.ts')).demo(options)));
}

const proxySettings =
  '\nSALLYPORT_PROXY_HOST, SALLYPORT_PROXY_PORT and SALLYPORT_PROXY_TOKEN name the sidecar';

export function declareRun(program: Command): void {
  program
    .command('run')
    .summary('run a command whose calls go through the sidecar')
    .description(
      "Sets the variables that send HTTP and MCP clients through the sidecar, and runs a command with them. Exits with the command's exit code.",
    )
    .usage(
      '-- COMMAND [ARGS...]\n       sallyport run --isolated -- COMMAND [ARGS...]\n       sallyport run --print',
    )
    .argument('[command...]', 'command with its arguments')
    .option(
      '--isolated',
      'give the command no other network than the sidecar (Linux, no root needed)',
    )
    .option('--print', 'print the variables for a shell to evaluate')
    .passThroughOptions()
    .addHelpText(
      'after',
      `${proxySettings},\nSALLYPORT_PROXY_ADMIN_PORT its admin port.\n${examples(
        'sallyport run -- python agent.py',
        'sallyport run --isolated -- claude',
        'eval "$(sallyport run --print)"',
      )}`,
    )
    .action(
      exitWith(async (command, { print, isolated }, self) => {
        if (print === true && isolated === true) {
          self.error('error: --print cannot isolate a shell; remove --print or --isolated');
        }
        if (print === true && command.length > 0) {
          self.error('error: --print runs no command; remove the command or --print');
        }
        const { printEnvironment, run, runIsolatedCommand } = await import('../run/run.ts');
        const [file, ...args] = command;
        if (print === true) return printEnvironment();
        if (file === undefined) return self.error("error: missing required argument 'command'");
        return isolated === true ? runIsolatedCommand(file, args) : run(file, args);
      }),
    );
}

export function declareMcp(program: Command): void {
  program
    .command('mcp')
    .summary('put a local stdio MCP server behind the sidecar')
    .description(
      'Runs a local MCP server and connects it to an MCP client on standard input and output, so that each message of the client goes through the sidecar.',
    )
    .usage('--name NAME -- COMMAND [ARGS...]')
    .argument('<command...>', 'command that starts the MCP server, with its arguments')
    .option(
      '--name <name>',
      'name of an MCP binding whose host is a free loopback port, such as 127.0.0.1:7391 (required)',
    )
    .addHelpText(
      'after',
      `${proxySettings}.\n${examples('claude mcp add crm -- sallyport mcp --name crm -- npx crm-server')}`,
    )
    .action(
      exitWith(async (command, { name }, self) => {
        if (name === undefined) return self.error("error: missing required option '--name <name>'");
        return (await import('../mcp/mcp.ts')).mcp(name, command);
      }),
    );
}
