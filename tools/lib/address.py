"""Which addresses a URL may lead to.

A name is resolved once, its addresses are checked, and the connection goes to
one that was checked: asking again could give another answer.
"""

import ipaddress
import os
import socket
import threading

from tool import Failure, show

ALLOW_ALL = "FETCH_URL_ALLOW_PRIVATE"
ALLOW_HOSTS = "FETCH_URL_ALLOW_HOSTS"

# IANA's special-purpose registries, as far as they are not global.
PRIVATE_4 = [ipaddress.ip_network(n) for n in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)]
# What is global in IPv6, and what in it is not.
PUBLIC_6 = ipaddress.ip_network("2000::/3")
PRIVATE_6 = [ipaddress.ip_network(n) for n in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
# Addresses that a translator turns into the IPv4 address in their last 32 bits.
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def is_public(text):
    """Whether an address is one of the public internet."""
    try:
        address = ipaddress.ip_address(text.split("%", 1)[0])
    except ValueError:
        return False
    if address.version == 6:
        if address in TRANSLATED:
            address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        else:
            return address in PUBLIC_6 and not any(address in n for n in PRIVATE_6)
    return not any(address in n for n in PRIVATE_4)


def allowed(host, port):
    """Whether the person permits private addresses for this host."""
    if os.environ.get(ALLOW_ALL) == "1":
        return True
    names = os.environ.get(ALLOW_HOSTS, "").replace(",", " ").lower().split()
    bare = f"[{host}]" if ":" in host else host
    return bare.lower() in names or f"{bare}:{port}".lower() in names


def resolve(host, port, seconds):
    """The addresses of host that may be connected to."""
    found = lookup(host, port, seconds)
    if allowed(host, port):
        return found
    public = [a for a in found if is_public(a[1][0])]
    if not public:
        which = found[0][1][0]
        name = show(host) if which == host else f"{show(host)} ({which})"
        raise Failure(f"{name} is no public address and is refused; a person can allow it with {ALLOW_HOSTS}=HOST,HOST:PORT or {ALLOW_ALL}=1")
    return public


def lookup(host, port, seconds):
    """(family, address) of host. The system's resolver cannot be interrupted,
    so it runs in a thread that is left behind when it takes too long."""
    result = []

    def work():
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            result.append([(family, address) for family, _, _, _, address in infos])
        except (OSError, UnicodeError) as e:
            result.append(e)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not result:
        raise Failure(f"{show(host)}: no answer of the name servers within {seconds:.0f} s")
    if isinstance(result[0], Exception):
        reason = getattr(result[0], "strerror", None) or result[0]
        raise Failure(f"{show(host)}: {reason}")
    return result[0]
