interface IsolationErrorKind {
  readonly text: string;
  /** What the operator can do. */
  readonly nextStep: string;
}

const readMessage = 'Read the cause in the message.';

/** The reason codes of `sallyport run --isolated`. Only the command line reports them. */
export const isolationErrorKinds = {
  'run.isolation_not_linux': {
    text: 'Isolated runs need the namespaces of Linux.',
    nextStep:
      'Use `sallyport run` without `--isolated`, or run the agent in a Linux container or VM.',
  },
  'run.isolation_root': {
    text: 'The command would run as root, and namespaces do not stop root from changing files of the system.',
    nextStep: 'Run Sallyport and the command as a user without privileges.',
  },
  'run.isolation_tool_missing': {
    text: 'A program that creates the namespaces is missing.',
    nextStep: 'Install the packages util-linux (2.35 or later), iproute2 and nftables.',
  },
  'run.isolation_userns_disabled': {
    text: 'The setting user.max_user_namespaces forbids user namespaces.',
    nextStep: 'Allow them as root: `sysctl -w user.max_user_namespaces=15000`.',
  },
  'run.isolation_userns_root_only': {
    text: 'The setting kernel.unprivileged_userns_clone=0 reserves user namespaces for root.',
    nextStep: 'Allow them as root: `sysctl -w kernel.unprivileged_userns_clone=1`.',
  },
  'run.isolation_apparmor': {
    text: 'AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1).',
    nextStep:
      'Allow them as root: add an AppArmor profile with `userns,` for /usr/bin/unshare, or run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`.',
  },
  'run.isolation_seccomp': {
    text: 'A seccomp filter, as in most containers, forbids creating namespaces.',
    nextStep:
      'Run the command outside of the container, or put the sidecar next to the container and use `sallyport network apply`.',
  },
  'run.isolation_forbidden': {
    text: 'The kernel refused to create the namespaces.',
    nextStep: readMessage,
  },
  'run.isolation_proc_forbidden': {
    text: 'The kernel refused to mount /proc, because parts of it are hidden, as in most containers.',
    nextStep: 'Run the command outside of the container.',
  },
  'run.isolation_failed': {
    text: 'A step of the isolation failed.',
    nextStep: readMessage,
  },
  'run.isolation_folder_hidden': {
    text: 'The command needs a folder that isolation hides.',
    nextStep: 'Start the command in another folder, such as a project in your home folder.',
  },
  'run.isolation_stdio_socket': {
    text: 'Standard input, output or error is a network socket, which bypasses the isolation.',
    nextStep: 'Use a terminal, a file or a pipe, for example `| cat`.',
  },
  'run.isolation_socket_missing': {
    text: 'The sidecar has no socket for isolated runs.',
    nextStep:
      'Start it with SALLYPORT_REDIRECT_SOCKET=1 as the same user, and set SALLYPORT_DATA_DIR to its data directory.',
  },
  'run.isolation_other_sidecar': {
    text: 'The socket for isolated runs belongs to another sidecar than the ports.',
    nextStep:
      'Set SALLYPORT_DATA_DIR, SALLYPORT_PROXY_PORT and SALLYPORT_PROXY_ADMIN_PORT to those of one sidecar.',
  },
  'run.isolation_greeting_invalid': {
    text: 'The sidecar did not understand the first message of the isolated run.',
    nextStep: 'Use the same version of Sallyport for the sidecar and for `sallyport run`.',
  },
  'run.isolation_sockets_invalid': {
    text: 'The sidecar refused the sockets of the network namespace.',
    nextStep: 'Use the same version of Sallyport for the sidecar and for `sallyport run`.',
  },
  'run.isolation_sidecar_failed': {
    text: 'The sidecar could not serve the network namespace.',
    nextStep: "Read the sidecar's log.",
  },
} as const satisfies Record<string, IsolationErrorKind>;

export type IsolationErrorCode = keyof typeof isolationErrorKinds;
