"""TCP ports of 127.0.0.1 for the servers of a test."""

import random
import socket

_reserved = []  # sockets that reserve ports until the end of this process


def free_ports(count=1):
    """Reserves `count` consecutive ports until the end of this process and returns the first one.
    Servers that listen with SO_REUSEADDR can use them. Other tests do not find them, and the kernel
    does not assign them to connections: they are outside ip_local_port_range if there is room."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low, high = map(int, file.read().split())
    first, end = max((10000, low), (high + 1, 65536), key=lambda ports: ports[1] - ports[0])
    if end - first < 2 * count:
        first, end = 10000, 65536
    while True:
        port = random.randrange(first, end - count)
        sockets = []
        try:
            for i in range(count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port + i))
        except OSError:
            for one in sockets:
                one.close()
            continue
        for one in sockets:
            # A socket that is bound without this option excludes all others. With the option it
            # admits sockets that also have it.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved.extend(sockets)
        return port
