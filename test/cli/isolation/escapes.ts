import type { IsolatedStage } from './isolated-stage.ts';

export interface Escape {
  readonly name: string;
  /** Returns a Python program that prints `ESCAPED` if it succeeds. */
  readonly python: (stage: IsolatedStage, hostAddress: string) => string;
}

const prelude = `
import ctypes, fcntl, glob, os, signal, socket, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def tcp(address, port, family=socket.AF_INET):
    s = socket.socket(family); s.settimeout(3); s.connect((address, port)); s.sendall(b'hello\\r\\n\\r\\n'); return s.recv(100)
def udp(address, port, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(1); s.connect((address, port)); s.send(b'hello'); return True
def unix(path):
    s = socket.socket(socket.AF_UNIX); s.settimeout(3); s.connect(path); return s.recv(100)
def sh(command):
    done = subprocess.run(command, shell=True, capture_output=True, timeout=20); return done.returncode == 0
def inject():
    import pty
    pid, _ = pty.fork()
    if pid > 0: return os.waitpid(pid, 0)[1] == 0
    try: fcntl.ioctl(0, 0x5412, b'x'); os._exit(0)
    except OSError: os._exit(1)
def attempt(work):
    try:
        if work(): print('ESCAPED')
        else: print('held')
    except Exception as e: print('held', repr(e))
`;

/** Returns a program that calls `attempt` with a Python expression. */
export function attempt(expression: string): string {
  return `${prelude}\nattempt(lambda: ${expression})\n`;
}

const row = (name: string, python: Escape['python']): Escape => ({ name, python });

export const escapes: readonly Escape[] = [
  row('TCP to a service on the loopback of the host', ({ host }) =>
    attempt(`b'host' in tcp('127.0.0.1', ${host.tcp})`),
  ),
  row('TCP to an IPv4 address of the host', ({ host }, at) =>
    attempt(`b'host' in tcp('${at}', ${host.tcp})`),
  ),
  row('TCP to an IPv4-mapped IPv6 address of the host', ({ host }, at) =>
    attempt(`b'host' in tcp('::ffff:${at}', ${host.tcp}, socket.AF_INET6)`),
  ),
  row('a request to the control plane by its address', ({ apiPort }) =>
    attempt(`tcp('127.0.0.1', ${apiPort})`),
  ),
  row('UDP to the host', ({ host }, at) => attempt(`udp('${at}', ${host.udp})`)),
  row('QUIC (UDP port 443) to an outside IPv4 address', () => attempt(`udp('192.0.2.1', 443)`)),
  row('UDP to an outside IPv6 address', () => attempt(`udp('2001:db8::1', 443, socket.AF_INET6)`)),
  row('ICMP by a datagram socket', () =>
    attempt(
      `socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).sendto(b'\\x08\\0\\0\\0\\0\\0\\0\\0', ('192.0.2.1', 0))`,
    ),
  ),
  row('a raw socket', () =>
    attempt(`socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)`),
  ),
  row('a packet socket', () => attempt(`socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`)),
  row('a socket to the host of the virtual machine (AF_VSOCK)', () =>
    attempt(`socket.socket(socket.AF_VSOCK)`),
  ),
  row('a socket of the crypto API (AF_ALG)', () => attempt(`socket.socket(38, 5)`)),
  row('io_uring, which can open sockets', () =>
    attempt(`libc.syscall(425, 1, ctypes.create_string_buffer(120)) >= 0`),
  ),
  row('SCTP', () =>
    attempt(
      `socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).connect(('192.0.2.1', 80)) is None`,
    ),
  ),
  row('removal of the packet filter rules', () => attempt(`sh('nft flush ruleset')`)),
  row('another route or interface', () =>
    attempt(`sh('ip link add x type dummy || ip route add 192.0.2.0/24 dev lo')`),
  ),
  row('root in a user namespace of its own, without the rules', () =>
    attempt(`sh('unshare -Ur nft flush ruleset')`),
  ),
  row('TCP to the host from a network namespace of its own', ({ host }, at) =>
    attempt(
      `sh("unshare -Urn python3 -c \\"import socket; socket.create_connection(('${at}', ${host.tcp}), 2)\\"")`,
    ),
  ),
  row('the removal of a mount in a user namespace of its own', ({ dataDir }) =>
    attempt(`sh("unshare -Urm sh -c 'umount ${dataDir} && cat ${dataDir}/bootstrap-key'")`),
  ),
  row('a bind mount of the covered folder', ({ dataDir, folder }) =>
    attempt(
      `sh("unshare -Urm sh -c 'mount --bind ${folder} /mnt && cat /mnt/data/bootstrap-key'") or os.path.exists('${dataDir}/bootstrap-key')`,
    ),
  ),
  row('an overlay of the covered folder', ({ folder }) =>
    attempt(
      `sh("unshare -Urm sh -c 'mkdir -p /tmp/o$$ && mount -t overlay overlay -o lowerdir=${folder}:/usr/share /tmp/o$$ && cat /tmp/o$$/data/bootstrap-key'")`,
    ),
  ),
  row('the data directory by its path', ({ dataDir }) =>
    attempt(`len(os.listdir('${dataDir}')) > 0`),
  ),
  row('the data directory through process 1', ({ dataDir }) =>
    attempt(`os.listdir('/proc/1/root${dataDir}')`),
  ),
  row('the descriptors of process 1', () => attempt(`os.listdir('/proc/1/fd')`)),
  row('the memory of process 1', () => attempt(`open('/proc/1/mem', 'rb')`)),
  row('tracing of process 1', () => attempt(`libc.ptrace(16, 1, 0, 0) == 0`)),
  row('the debugger of process 1', () =>
    attempt(
      `(os.kill(1, signal.SIGUSR1), __import__('time').sleep(0.5)) and tcp('127.0.0.1', 9229)`,
    ),
  ),
  row('the namespaces of process 1', () => attempt(`sh('nsenter -t 1 -n true')`)),
  row('a signal to the sidecar', ({ sidecarPid }) => attempt(`os.kill(${sidecarPid}, 0) is None`)),
  row('a signal to every process that it may signal', () =>
    attempt(
      `(signal.signal(signal.SIGTERM, signal.SIG_IGN), os.kill(-1, signal.SIGTERM)) and False`,
    ),
  ),
  row('the processes of the host in /proc', ({ sidecarPid }) =>
    attempt(`os.path.exists('/proc/${sidecarPid}/status')`),
  ),
  row('a change of the control groups of others', () =>
    attempt(
      `any(os.access(p, os.W_OK) for p in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True))`,
    ),
  ),
  row('a Unix socket of the host by its path', ({ host }) => attempt(`unix('${host.unixPath}')`)),
  row('an abstract Unix socket of the host', ({ host }) =>
    attempt(`unix('\\0${host.abstractName}')`),
  ),
  row('the service manager of the user', () =>
    attempt(
      `sh('systemd-run --user true') or os.path.exists('/run/systemd') or os.path.exists('/run/user')`,
    ),
  ),
  row('the container engines', () =>
    attempt(
      `any(os.path.exists(p) for p in ('/run/docker.sock', '/var/run/docker.sock', '/run/containerd/containerd.sock', '/run/podman/podman.sock'))`,
    ),
  ),
  row('an inherited descriptor', () =>
    attempt(
      `any(os.readlink('/proc/self/fd/%d' % fd).startswith(('socket:', '/proc/net', '/etc')) for fd in range(3, 60) if os.path.islink('/proc/self/fd/%d' % fd))`,
    ),
  ),
  row('a set-user-ID program', () =>
    attempt(`sh('su -c true </dev/null') or sh('mount -t tmpfs x /mnt')`),
  ),
  row('capabilities', () =>
    attempt(
      `any(int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('Cap'))`,
    ),
  ),
  row('input for the terminal of the user (TIOCSTI)', () => attempt(`inject()`)),
  row('the shared memory of other processes', () => attempt(`len(os.listdir('/dev/shm')) > 0`)),
  row('the other terminals of the user', () =>
    attempt(`any(name.isdigit() for name in os.listdir('/dev/pts'))`),
  ),
  row('variables that name services or secrets', () =>
    attempt(
      `[name for name in os.environ if name.startswith(('SALLYPORT_', 'SSH_AUTH', 'DBUS_', 'XDG_RUNTIME', 'DOCKER_HOST')) or name.lower().endswith('_proxy')]`,
    ),
  ),
];
