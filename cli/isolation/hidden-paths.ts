import fs from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { IsolationError } from './isolation-error.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Folders with sockets of system services and of services of the user's session. */
const serviceFolders = [
  '/run',
  '/var/run',
  '/dev/shm',
  '/tmp/.X11-unix',
  '/tmp/.ICE-unix',
  '/mnt/wslg',
  '/var/lib/docker',
  '/var/lib/containerd',
];

/** Variables that name a service outside the namespaces, or the socket of such a service. */
const serviceVariables =
  /^(?:DBUS_.*|XDG_RUNTIME_DIR|SSH_AUTH_SOCK|SSH_AGENT_PID|GPG_AGENT_INFO|GNOME_KEYRING_.*|DISPLAY|WAYLAND_.*|XAUTHORITY|SESSION_MANAGER|PULSE_SERVER|PIPEWIRE_.*|TMUX|TMUX_PANE|TMUX_TMPDIR|STY|ZELLIJ.*|WSL_INTEROP|WSLENV|DOCKER_HOST|DOCKER_CONTEXT|CONTAINER_HOST|CONTAINERD_ADDRESS|BUILDKIT_HOST|NOTIFY_SOCKET|LISTEN_.*|JOURNAL_STREAM|VSCODE_IPC_.*|VSCODE_GIT_IPC_.*|NVIM|NVIM_LISTEN_ADDRESS|I3SOCK|SWAYSOCK|KITTY_LISTEN_ON|EMACS_SOCKET_NAME)$/;

/** True if a variable refers to a service that isolation hides. */
export function namesService(name: string): boolean {
  return serviceVariables.test(name);
}

interface Wanted {
  readonly env: Environment;
  /** Folders with keys and credentials of Sallyport. */
  readonly dataFolders: readonly string[];
  /** Paths that the command needs. */
  readonly needed: readonly string[];
}

/** Folders and sockets to cover, by their real paths. Throws if the command needs one of them. */
export function hiddenPaths({ env, dataFolders, needed }: Wanted): {
  readonly folders: readonly string[];
  readonly sockets: readonly string[];
} {
  const sockets = boundSockets().filter(isConnectable);
  const uid = process.getuid?.();
  const candidates = [
    ...dataFolders,
    ...serviceFolders,
    env.XDG_RUNTIME_DIR ?? '',
    `/tmp/tmux-${uid}`,
    join(env.TMUX_TMPDIR ?? '/tmp', `tmux-${uid}`),
    // Folders such as /tmp/ssh-XXXX, in which a service may bind another socket later. In the
    // command's own folder, only the sockets are covered.
    ...sockets
      .map((path) => dirname(path))
      .filter((path) => dirname(path) === '/tmp')
      .filter((path) => !needed.some((one) => one === path || isBelow(one, path))),
  ];
  const real = new Set(candidates.flatMap((path) => (path === '' ? [] : realFolder(path))));
  const folders = [...real].filter((path) => ![...real].some((other) => isBelow(path, other)));
  for (const path of needed) {
    const hidden = folders.find((folder) => path === folder || isBelow(path, folder));
    if (hidden === undefined) continue;
    throw new IsolationError('run.isolation_folder_hidden', `${path} is in ${hidden}.`);
  }
  const isCovered = (path: string) => folders.some((folder) => isBelow(path, folder));
  return { folders, sockets: sockets.filter((path) => !isCovered(path)) };
}

function realFolder(path: string): string[] {
  try {
    const real = fs.realpathSync(resolve(path));
    return fs.statSync(real).isDirectory() && real !== '/' ? [real] : [];
  } catch {
    return [];
  }
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(`${folder}${sep}`);
}

/** Paths of all Unix sockets that are bound in this network namespace. */
function boundSockets(): string[] {
  const lines = fs.readFileSync('/proc/net/unix', 'utf8').split('\n').slice(1);
  const paths = lines.flatMap((line) => {
    const [, path] = /^(?:\S+\s+){7}(\/.+)$/.exec(line) ?? [];
    return path === undefined ? [] : [path];
  });
  return [...new Set(paths)];
}

function isConnectable(path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.W_OK);
    return fs.statSync(path).isSocket();
  } catch {
    return false;
  }
}
