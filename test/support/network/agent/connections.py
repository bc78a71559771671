

# Attempts that depend on what happened before, and programs that may send.
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


def accepted_and_asked(port):
    # Answers only when the other host has sent something after the line.
    server = socket.create_server(('10.77.0.2', int(port)))
    sock, _ = server.accept()
    sock.settimeout(5)
    sock.recv(1)
    yield

    def act():
        while readable(sock, 0):
            sock.recv(4096)
        sock.recv(1)
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
