

# Attempts to get a privilege, or another network namespace.
def open_socket(domain, kind, protocol):
    yield
    yield refused(lambda: socket.socket(int(domain), int(kind), int(protocol)))


def set_option(level, option, value='1'):
    yield
    sock = socket.socket()
    content = 1 if value == '1' else bytes.fromhex(value)
    yield refused(lambda: sock.setsockopt(int(level), int(option), content))


def run_program(*command):
    yield
    result = subprocess.run(command, capture_output=True, text=True)
    text = result.stdout + result.stderr
    denied = ('not permitted', 'Permission denied', 'must be root')
    yield 'refused' if result.returncode != 0 and any(part in text for part in denied) else text.strip() or 'allowed'


def unshare(flags):
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), 'unshare')


def become(uid, gid, as_uid):
    unshare(CLONE_NEWUSER)
    for file, text in (('setgroups', 'deny'), ('uid_map', f'{as_uid} {uid} 1'), ('gid_map', f'{as_uid} {gid} 1')):
        with open(f'/proc/self/{file}', 'w') as written:
            written.write(text)


def tcp_in_user_namespace(address, port, as_uid):
    yield
    become(os.getuid(), os.getgid(), as_uid)
    sock = configured(socket.SOCK_STREAM, address, ())

    def act():
        sock.connect((address, int(port)))
        sock.sendall(REQUEST)
        return read_answer(sock)

    yield observe(act)


def nft_in_user_namespace(*command):
    yield
    become(os.getuid(), os.getgid(), 0)
    yield from list(run_program(*command))[1:]


def raw_in_user_namespace():
    yield
    become(os.getuid(), os.getgid(), 0)
    yield refused(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))


def new_network_namespace(address, port):
    yield
    become(os.getuid(), os.getgid(), 0)
    unshare(CLONE_NEWNET)
    sock = configured(socket.SOCK_DGRAM, address, ())
    yield observe(lambda: sock.sendto(TOKEN, (address, int(port))) and 'silence')


def become_sidecar():
    yield
    yield refused(lambda: os.setuid(1337))


def enter_namespace(path):
    yield

    def act():
        with open(path) as namespace:
            if libc.setns(namespace.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), 'setns')

    yield refused(act)


def kill(pid):
    yield
    yield refused(lambda: os.kill(int(pid), signal.SIGKILL))


def listen(port):
    yield

    def act():
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(('127.0.0.1', int(port)))
        sock.listen()

    yield refused(act)


name, *arguments = sys.argv[1:]
steps = globals()[name](*arguments)
next(steps)
print('ready', flush=True)
sys.stdin.readline()
print(next(steps), flush=True)
sys.stdin.readline()
