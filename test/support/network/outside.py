# A host outside of the pod. Usage: python3 -c OUTSIDE NAME [ARG ...]. Prints `ready`, then what it observes.
import select, socket, sys, time


def tcp_server(port):
    # Prints `end` or `reset` when the first connection ends.
    server = socket.create_server(('10.77.0.1', int(port)))
    print('ready', flush=True)
    connections = []
    while True:
        sock, _ = server.accept()
        connections.append(sock)
        report_end(sock)


def udp_echo(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('10.77.0.1', int(port)))
    print('ready', flush=True)
    while True:
        data, sender = sock.recvfrom(4096)
        sock.sendto(data, sender)


def http_stranger():
    # Answers every request as the sidecar's internal host does.
    servers = [socket.create_server(('', 80)), socket.create_server(('::', 80), family=socket.AF_INET6)]
    print('ready', flush=True)
    body = b'{"status":"ok"}'
    while True:
        for server in select.select(servers, [], [])[0]:
            sock, _ = server.accept()
            sock.recv(4096)
            sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body) + body)


def connect_to_pod(port):
    # Connects as soon as a server in the pod listens.
    print('ready', flush=True)
    sock = connection_to_pod(port)
    sock.sendall(b'x')
    print('connected', flush=True)
    report_end(sock)


def talk_to_pod(port):
    # The same, and keeps talking.
    print('ready', flush=True)
    sock = connection_to_pod(port)
    while True:
        sock.sendall(b'x')
        time.sleep(0.02)


def connection_to_pod(port):
    while True:
        try:
            return socket.create_connection(('10.77.0.2', int(port)), timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.02)


def report_end(sock):
    received = b''
    try:
        while part := sock.recv(4096):
            received += part
        print(f'end {received.decode()}'.strip(), flush=True)
    except ConnectionResetError:
        print('reset', flush=True)


name, *arguments = sys.argv[1:]
globals()[name](*arguments)
