

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
