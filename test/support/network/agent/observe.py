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
        sock.bind(('198.51.100.99', 0))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        sock.bind(('2001:db8:99::1', 0))


def transparent_source(sock):
    sock.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    sock.bind(('198.51.100.99', 0))


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
