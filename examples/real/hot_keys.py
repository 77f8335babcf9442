"""Load on a few hot keys of a memcached on loopback: hot_keys.py PORT. Eight connections, a bounded number of requests."""

import socket
import sys
import threading

CONNECTIONS = 8
ROUNDS = 400
KEYS = [b"hot%d" % i for i in range(8)]


def client(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        answers = s.makefile("rb")
        batch = b"".join(b"get %s\r\n" % key for key in KEYS) + b"incr counter 1\r\n"
        for _ in range(ROUNDS):
            s.sendall(batch)
            ends = 0
            while ends < len(KEYS):
                ends += answers.readline() == b"END\r\n"
            answers.readline()


def main() -> None:
    port = int(sys.argv[1])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        answers = s.makefile("rb")
        for key in KEYS + [b"counter"]:
            s.sendall(b"set %s 0 0 4\r\n1000\r\n" % key)
            answers.readline()
    threads = [threading.Thread(target=client, args=(port,)) for _ in range(CONNECTIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"hot keys: {CONNECTIONS * ROUNDS * len(KEYS)} gets")


main()
