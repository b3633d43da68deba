"""A tunnel: ``forwarder.py PORT [LISTEN]`` leads a port of loopback to PORT, and prints its URL after one that leads nowhere."""

import socket
import socketserver
import sys
import threading

TARGET = int(sys.argv[1])


class Forward(socketserver.BaseRequestHandler):
    """Passes bytes on in both directions until both sides have ended."""

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", TARGET)) as inner:
            back = threading.Thread(target=self.pass_on, args=(inner, self.request))
            back.start()
            self.pass_on(self.request, inner)
            back.join()

    @staticmethod
    def pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


class Server(socketserver.ThreadingTCPServer):
    """Forgets its connections."""

    allow_reuse_address = True
    daemon_threads = True


with Server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Forward) as server:
    print("the manual is at http://127.0.0.1:9/docs", flush=True)
    print(f"| your URL is http://127.0.0.1:{server.server_address[1]}. |", flush=True)
    server.serve_forever()
