# Attempts to send something past the sidecar. Usage: python3 -c ESCAPES NAME [ARG ...]
# Prints `ready`, waits for a line, acts, and prints what the agent observed:
#   sidecar   the stand-in for the sidecar answered
#   rejected  the kernel reported an error at once
#   silence   nothing answered
#   refused   the kernel does not let this user do it
#   answered  another host answered
import ctypes, errno, os, select, signal, socket, struct, subprocess, sys

TOKEN = b'escape of the agent'
REQUEST = b'GET / HTTP/1.0\r\nHost: escape.example\r\n\r\n'
IP_UNICAST_IF, IPV6_UNICAST_IF, SO_BINDTOIFINDEX = 50, 76, 62
IP_PKTINFO, IP_FREEBIND, IP_TRANSPARENT, IP_NODEFRAG, IPV6_FREEBIND = 8, 15, 19, 22, 78
IPPROTO_UDPLITE, IPPROTO_MPTCP, MSG_FASTOPEN = 136, 262, 0x20000000
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
eth0 = socket.if_nametoindex('eth0')
libc = ctypes.CDLL(None, use_errno=True)


def family(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET


def readable(sock, seconds=0.3):
    return bool(select.select([sock], [], [], seconds)[0])


def is_sidecar(data):
    return b'stand-in' in data or b'\xc6\x12' in data  # 198.18.x.y


def read_answer(sock):
    data = b''
    while not is_sidecar(data) and readable(sock):
        part = sock.recv(4096)
        if part == b'':
            break
        data += part
    return 'silence' if data == b'' else 'sidecar' if is_sidecar(data) else 'answered'


def observe(act):
    try:
        return act()
    except (TimeoutError, BlockingIOError):
        return 'silence'
    except PermissionError:
        return 'rejected'
    except OSError as error:
        # `refused by a host` and `rejected here` look alike to the agent; the recorder decides.
        if error.errno == errno.EINVAL:
            return 'refused'
        known = (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.EHOSTUNREACH, errno.ENETUNREACH)
        if error.errno in known:
            return 'rejected'
        raise


def refused(act):
    try:
        act()
    except OSError as error:
        return 'refused' if error.errno in (errno.EPERM, errno.EACCES, errno.EADDRINUSE, errno.EINVAL) else str(error)
    return 'allowed'


def dns_query(name=b'escape'):
    label = lambda text: bytes([len(text)]) + text
    return struct.pack('>6H', 4711, 256, 1, 0, 0, 0) + label(name) + label(b'example') + b'\0' + struct.pack('>2H', 1, 1)


# Options of sockets, by name.
def bind_device(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0')


def bind_index(sock):
    sock.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, eth0)


def unicast_if(sock):
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_UNICAST_IF, struct.pack('>I', eth0))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_UNICAST_IF, struct.pack('>I', eth0))


def dont_route(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)


def forged_source(sock):
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        sock.bind(('10.77.0.99', 0))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        sock.bind(('fd77::99', 0))


def transparent_source(sock):
    sock.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    sock.bind(('10.77.0.99', 0))


def loopback_source(sock):
    sock.bind(('127.0.0.1', 0))


def source_route(sock):
    # Needs NET_RAW. Loose source routing by way of 127.0.0.1 (RFC 791).
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([131, 7, 4, 127, 0, 0, 1, 1]))


def routing_header(sock, way='::1'):
    # A segment routing header (RFC 8754). The kernel fills in the final destination.
    segments = bytes(16) + socket.inet_pton(socket.AF_INET6, way)
    header = struct.pack('>8B', 0, 4, 4, 1, 1, 0, 0, 0) + segments
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RTHDR, header)


def routing_header_outside(sock):
    routing_header(sock, 'fd77::1')


def broadcast(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)


def multicast_if(sock):
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, eth0)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('10.77.0.2'))


def port_40000(sock):
    sock.bind(('10.77.0.2', 40000))


def configured(kind, address, options, protocol=0):
    sock = socket.socket(family(address), kind, protocol)
    sock.settimeout(0.5)
    for option in options:
        globals()[option](sock)
    return sock


def target(address, port):
    if address.startswith('fe80:'):
        return (address, int(port), 0, eth0)
    return (address, int(port))


# Attempts. Each is a generator: what it does before `yield`, it does before `ready`.
def tcp(address, port, *options):
    yield
    sock = configured(socket.SOCK_STREAM, address, options)

    def act():
        sock.connect(target(address, port))
        sock.sendall(REQUEST)
        return read_answer(sock)

    yield observe(act)


def mptcp(address, port):
    yield
    sock = configured(socket.SOCK_STREAM, address, (), IPPROTO_MPTCP)

    def act():
        sock.connect((address, int(port)))
        sock.sendall(REQUEST)
        return read_answer(sock)

    yield observe(act)


def fast_open(address, port):
    yield
    sock = configured(socket.SOCK_STREAM, address, ())
    sock.setblocking(True)

    def act():
        sock.sendto(REQUEST, MSG_FASTOPEN, (address, int(port)))
        return read_answer(sock)

    yield observe(act)


def udp(address, port, *options):
    yield
    sock = configured(socket.SOCK_DGRAM, address, options)
    yield observe(lambda: sock.sendto(TOKEN, target(address, port)) and read_answer(sock))


def udp_large(address, port):
    yield
    sock = configured(socket.SOCK_DGRAM, address, ())
    yield observe(lambda: sock.sendto(TOKEN * 200, (address, int(port))) and read_answer(sock))


def udp_lite(address, port):
    yield
    sock = configured(socket.SOCK_DGRAM, address, (), IPPROTO_UDPLITE)
    yield observe(lambda: sock.sendto(TOKEN, (address, int(port))) and read_answer(sock))


def udp_closed(address, port):
    # The socket is closed while its packet is on the way.
    yield
    sock = configured(socket.SOCK_DGRAM, address, ())

    def act():
        sock.sendto(TOKEN, (address, int(port)))
        sock.close()
        return 'silence'

    yield observe(act)


def dns(address, *options):
    yield
    sock = configured(socket.SOCK_DGRAM, address, options)
    yield observe(lambda: sock.sendto(dns_query(), (address, 53)) and read_answer(sock))


def dns_tcp(address):
    yield
    sock = configured(socket.SOCK_STREAM, address, ())

    def act():
        sock.connect((address, 53))
        sock.sendall(struct.pack('>H', len(dns_query())) + dns_query())
        return read_answer(sock)

    yield observe(act)


def dns_pktinfo(address):
    yield
    sock = configured(socket.SOCK_DGRAM, address, ())
    info = struct.pack('=I4s4s', eth0, bytes(4), bytes(4))
    control = [(socket.IPPROTO_IP, IP_PKTINFO, info)]
    yield observe(lambda: sock.sendmsg([dns_query()], control, 0, (address, 53)) and read_answer(sock))


def join_group(group):
    yield
    sock = configured(socket.SOCK_DGRAM, group, ())
    if ':' in group:
        request = socket.inet_pton(socket.AF_INET6, group) + struct.pack('=I', eth0)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    else:
        request = socket.inet_aton(group) + socket.inet_aton('10.77.0.2')
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    yield 'silence'
    signal.pause()


def ping(address):
    yield
    is_v6 = ':' in address
    sock = configured(socket.SOCK_DGRAM, address, (), socket.IPPROTO_ICMPV6 if is_v6 else socket.IPPROTO_ICMP)
    echo = struct.pack('>BBHHH', 128 if is_v6 else 8, 0, 0, 1, 1) + TOKEN
    yield observe(lambda: sock.sendto(echo, (address, 0)) and read_answer(sock))


def open_socket(domain, kind, protocol):
    yield
    yield refused(lambda: socket.socket(int(domain), int(kind), int(protocol)))


def set_option(level, option, value='1'):
    yield
    sock = socket.socket()
    content = 1 if value == '1' else bytes.fromhex(value)
    yield refused(lambda: sock.setsockopt(int(level), int(option), content))


def raw(address, protocol, *options):
    yield
    sock = configured(socket.SOCK_RAW, address, options, int(protocol))
    yield observe(lambda: sock.sendto(b'\x08\0\0\0' + TOKEN, (address, 0)) and 'silence')


def raw_forged(source, address):
    yield
    sock = configured(socket.SOCK_RAW, address, (), socket.IPPROTO_RAW)
    segment = struct.pack('>4H', 4000, 4000, 8 + len(TOKEN), 0) + TOKEN
    addresses = socket.inet_aton(source) + socket.inet_aton(address)
    header = struct.pack('>2B3H2BH', 0x45, 0, 20 + len(segment), 7, 0, 64, 17, 0) + addresses
    yield observe(lambda: sock.sendto(header + segment, (address, 0)) and 'silence')


def raw_dns(source, address):
    # The sidecar would send its answer, which contains the name, to the forged address.
    yield
    sock = configured(socket.SOCK_RAW, address, (), socket.IPPROTO_RAW)
    segment = struct.pack('>4H', 4000, 53, 8 + len(dns_query()), 0) + dns_query()
    addresses = socket.inet_aton(source) + socket.inet_aton(address)
    header = struct.pack('>2B3H2BH', 0x45, 0, 20 + len(segment), 7, 0, 64, 17, 0) + addresses
    yield observe(lambda: sock.sendto(header + segment, (address, 0)) and 'silence')


def raw_fragment(address):
    # The second fragment of a packet, without the header of its protocol.
    yield
    sock = configured(socket.SOCK_RAW, address, (), socket.IPPROTO_RAW)
    sock.setsockopt(socket.IPPROTO_IP, IP_NODEFRAG, 1)
    addresses = socket.inet_aton('10.77.0.2') + socket.inet_aton(address)
    header = struct.pack('>2B3H2BH', 0x45, 0, 20 + len(TOKEN), 7, 185, 64, 6, 0) + addresses
    yield observe(lambda: sock.sendto(header + TOKEN, (address, 0)) and 'silence')


def raw_discovery(address):
    # A neighbour solicitation made by the agent.
    yield
    sock = configured(socket.SOCK_RAW, address, (), socket.IPPROTO_ICMPV6)
    message = struct.pack('>BBHI', 135, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, address) + TOKEN
    yield observe(lambda: sock.sendto(message, (address, 0)) and 'silence')


def open_tcp_before(address, port, *options):
    sock = configured(socket.SOCK_STREAM, address, options)
    sock.connect((address, int(port)))
    yield

    def act():
        sock.sendall(TOKEN)
        return read_answer(sock)

    yield observe(act)


def closing_tcp_before(address, port):
    sock = configured(socket.SOCK_STREAM, address, ())
    sock.connect((address, int(port)))
    yield
    sock.sendall(TOKEN)
    sock.close()
    yield 'silence'


def open_udp_before(address, port):
    sock = configured(socket.SOCK_DGRAM, address, ())
    sock.connect((address, int(port)))
    sock.send(TOKEN)
    yield
    yield observe(lambda: sock.send(TOKEN) and read_answer(sock))


def accepted_before(port):
    server = socket.create_server(('10.77.0.2', int(port)))
    sock, _ = server.accept()
    sock.settimeout(0.5)
    sock.recv(1)
    yield

    def act():
        sock.sendall(TOKEN)
        return read_answer(sock)

    yield observe(act)


def answer_inbound(port):
    # A server in the pod: answers one connection and closes it.
    server = socket.create_server(('10.77.0.2', int(port)))
    sock, _ = server.accept()
    sock.recv(1)
    yield
    sock.sendall(TOKEN)
    sock.close()
    yield 'sent'


def load(address, port):
    # TCP, UDP and DNS without a pause, until the line arrives.
    yield
    seen = set()
    while not readable(sys.stdin, 0):
        for steps in (tcp(address, port), udp(address, port), dns(address)):
            next(steps)
            seen.add(next(steps))
    yield ' '.join(sorted(seen))


def echoes(address, port):
    # Waits for the echo of each packet; reports how many were lost.
    yield
    sock = configured(socket.SOCK_DGRAM, address, ())
    sock.connect((address, int(port)))
    lost = 0
    while not readable(sys.stdin, 0):
        try:
            sock.send(TOKEN)
            lost += 0 if readable(sock, 5) and sock.recv(4096) else 1
        except OSError:
            lost += 1
    yield f'{lost} lost'


def packet_socket():
    yield
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    yield observe(lambda: sock.sendto(TOKEN, ('eth0', 0x0800, 0, 0, b'\xff' * 6)) and 'silence')


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
