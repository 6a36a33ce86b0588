"""nginx in front of three replicas, and the command that sets how many of them it uses.

    python nginx.py start FOLDER   # nginx and three replicas; prints their port, runs until ended
    python nginx.py scale FOLDER 2 # uses two of the three

/missing/ answers 404 and /closed/ 401; the second port, one above, has a self-signed certificate.
The access log has the seconds of each request as nginx saw them.
"""

import socket
import subprocess
import sys
import time
from pathlib import Path

SCRIPTED = Path(__file__).parents[2] / "examples/fleet/scripted_server.py"
REPLICAS = 3
CONFIGURATION = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1; {user}
events {{ worker_connections 4096; }}
http {{
  log_format times '$uri $status $request_time';
  access_log {folder}/access.log times;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream fleet {{ least_conn; keepalive 64; {servers} }}
  server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{secure} ssl;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    location /health {{ access_log off; return 200; }}
    location /missing/ {{ return 404 "no such path"; }}
    location /closed/ {{ return 401 "a key is needed"; }}
    location / {{
      proxy_pass http://fleet; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


def free_ports(count: int) -> list[int]:
    """Ports in a row that nothing listens to."""
    for first in range(20000, 30000, count):
        held = [socket.socket() for _ in range(count)]
        try:
            for at, one in enumerate(held):
                one.bind(("127.0.0.1", first + at))
            return list(range(first, first + count))
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise SystemExit("no free ports")


def configure(folder: Path, used: int) -> None:
    """Write the configuration for so many replicas."""
    port, secure, *others = map(int, (folder / "ports").read_text().split())
    servers = " ".join(f"server 127.0.0.1:{one};" for one in others[:used])
    user = "user root;" if Path("/proc/self").stat().st_uid == 0 else ""
    (folder / "nginx.conf").write_text(
        CONFIGURATION.format(folder=folder, servers=servers, port=port, secure=secure, user=user)
    )


def nginx(folder: Path, *more: str) -> list[str]:
    """The command."""
    return ["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c",
            f"{folder}/nginx.conf", *more]  # fmt: skip


def start(folder: Path) -> None:
    """Replicas, a certificate and nginx, until this process is ended."""
    ports = free_ports(2 + REPLICAS)
    (folder / "ports").write_text(" ".join(map(str, ports)))
    configure(folder, REPLICAS)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    replicas = [
        subprocess.Popen(
            [sys.executable, SCRIPTED, "--port", str(port), "--slots", "4",
             "--first-token", "0.05", "--gap", "0.01"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for port in ports[2:]
    ]  # fmt: skip
    front = subprocess.Popen(nginx(folder))
    try:
        for port in ports:
            wait_for(port)
        print(ports[0], flush=True)
        sys.stdin.read()  # until whoever started this closes it
    finally:
        for one in (front, *replicas):
            one.terminate()
        for one in (front, *replicas):
            one.wait(20)


def wait_for(port: int) -> None:
    """Until a server listens."""
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


if __name__ == "__main__":
    home = Path(sys.argv[2]).resolve()
    if sys.argv[1] == "start":
        start(home)
    else:
        configure(home, int(sys.argv[3]))
        subprocess.run(nginx(home, "-s", "reload"), check=True)
        time.sleep(0.5)  # the new workers take over
