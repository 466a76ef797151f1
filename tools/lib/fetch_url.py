"""fetch-url: the text of a page of the public web."""

import codecs
import http.client
import re
import signal
import socket
import ssl
import time
import urllib.parse
import zlib

import tool
from address import resolve
from readable import readable
from tool import MOST_OUTPUT, Failure, between, required, say, show, wrong

SECONDS = 30
MOST_BYTES = 10 << 20
MOST_HOPS = 5
MOST_URL = 8192

REDIRECTS = (301, 302, 303, 307, 308)
HTML = ("text/html", "application/xhtml+xml")
TEXT = re.compile(r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|javascript|ecmascript|toml|x-sh|ld\+json|x-ndjson|graphql|sql)")


class Deadline:
    """Ends everything, whichever byte the server sends slowly."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        signal.signal(signal.SIGALRM, self.ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def ring(self, *_):
        raise Failure(f"the page was not there and read within {SECONDS} s")

    def left(self):
        return max(0.1, self.end - time.monotonic())


class URL:
    """A URL that may be fetched, as far as its text says."""

    def __init__(self, text):
        if len(text) > MOST_URL:
            raise wrong(f"the URL has more than {MOST_URL:,} characters")
        # Parsers disagree about these, and one of them would be fooled.
        if any(c <= " " or c == "\x7f" or c == "\\" for c in text):
            raise wrong(f"{show(text)}: white space, control characters and \\ must be written as %20 and so on")
        try:
            parts = urllib.parse.urlsplit(text)
            self.host, port = parts.hostname, parts.port
        except ValueError as e:
            raise wrong(f"{show(text)}: {e}") from None
        self.scheme = parts.scheme.lower()
        if self.scheme not in ("http", "https"):
            raise wrong(f"{show(text)}: only http:// and https:// are fetched")
        if "@" in parts.netloc:
            raise wrong("a URL with a user name or password is refused")
        if not self.host:
            raise wrong(f"{show(text)}: the host is missing")
        if port == 0:
            raise wrong(f"{show(text)}: port 0 is none")
        self.port = port or (443 if self.scheme == "https" else 80)
        self.host = ascii_host(self.host)
        path = urllib.parse.quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = urllib.parse.quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]|^")
        self.target = path + ("?" + query if query else "")
        place = f"[{self.host}]" if ":" in self.host else self.host
        if self.port != (443 if self.scheme == "https" else 80):
            place += f":{self.port}"
        self.place = place
        self.text = f"{self.scheme}://{place}{self.target}"

    def join(self, location):
        # Header bytes come as Latin-1; what servers mean is UTF-8.
        try:
            location = location.encode("latin-1").decode("utf-8")
        except UnicodeError:
            pass
        try:
            return URL(urllib.parse.urljoin(self.text, location.strip()))
        except ValueError as e:
            raise Failure(f"{show(location)}: {e}") from None


def ascii_host(host):
    if ":" in host:
        return host
    try:
        return host.encode("ascii").decode() if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise wrong(f"{show(host)} is no valid host name") from None


def connect(url, deadline):
    """A connection to a checked address of the host."""
    error = None
    for family, address in resolve(url.host, url.port, deadline.left()):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(min(10, deadline.left()))
        try:
            sock.connect(address)
            if url.scheme == "https":
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=url.host)
            return sock
        except ssl.SSLCertVerificationError as e:
            sock.close()
            raise Failure(f"{url.place}: the certificate is not valid: {e.verify_message}") from None
        except (OSError, UnicodeError) as e:
            sock.close()
            error = e
    raise Failure(f"{url.place}: {getattr(error, 'strerror', None) or error}")


def get(url, deadline):
    connection = http.client.HTTPConnection(url.host, url.port)
    connection.sock = connect(url, deadline)
    connection.sock.settimeout(SECONDS)
    # Without a socket of ours it would resolve the name itself.
    connection.auto_open = 0
    connection.putrequest("GET", url.target, skip_host=True, skip_accept_encoding=True)
    for name, value in (
        ("Host", url.place),
        ("User-Agent", "agents-fetch-url/1.0 (+https://github.com/agents-exe/agents)"),
        ("Accept", "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.1"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse()


def follow(url, deadline):
    """The last answer of a chain of redirects, with its URL."""
    seen = [url.text]
    for _ in range(MOST_HOPS + 1):
        try:
            answer = get(url, deadline)
        except (http.client.HTTPException, OSError) as e:
            raise Failure(f"{url.place}: {e or type(e).__name__}") from None
        location = answer.getheader("Location")
        if answer.status not in REDIRECTS or not location:
            return url, answer
        answer.close()
        try:
            url = url.join(location)
        except Failure as e:
            raise Failure(f"{seen[-1]} redirects to what is not fetched: {e}") from None
        if url.text in seen:
            raise Failure(f"{url.text} redirects in a circle")
        seen.append(url.text)
    raise Failure(f"more than {MOST_HOPS} redirects, the last to {seen[-1]}")


def body(answer):
    """The bytes of the answer and whether they were cut."""
    encoding = (answer.getheader("Content-Encoding") or "identity").strip().lower()
    try:
        data = answer.read(MOST_BYTES + 1)
    except http.client.IncompleteRead as e:
        raise Failure(f"the answer broke off after {len(e.partial):,} bytes") from None
    except (http.client.HTTPException, OSError, ValueError) as e:
        raise Failure(f"the answer broke off: {e}") from None
    cut = len(data) > MOST_BYTES
    if encoding in ("gzip", "x-gzip", "deflate"):
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            data = unpacker.decompress(data, MOST_BYTES + 1)
        except zlib.error as e:
            raise Failure(f"the answer's {encoding} is broken: {e}") from None
        cut = cut or len(data) > MOST_BYTES
    elif encoding != "identity":
        raise Failure(f"the answer is packed with {show(encoding)}, although that was not asked for")
    return data[:MOST_BYTES], cut


CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:-?[lb]e)?|us-ascii|ascii|latin-?1|(?:x-)?(?:cp|windows)-?(?:125\d|874|866)|iso-?8859-?\d+|koi8-?[ru]|"
    r"(?:x-)?sjis|shift[_-]jis|euc-?(?:jp|kr)|iso-2022-jp|gbk|gb2312|gb18030|big5(?:-hkscs)?|(?:x-)?mac-?(?:intosh|roman|cyrillic)|tis-620")
DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]+)|^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w-]+)""", re.I)


def decode(data, charset, cut):
    """The text of a page: what a byte order mark says, the server, the page."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return data[len(mark):].decode(name, "replace")
    declared = DECLARED.search(data[:4096])
    page = (declared[1] or declared[2]).decode() if declared else ""
    if page.lower().startswith("utf-16"):
        page = "utf-8"  # it was readable as ASCII, so it is no UTF-16
    for name in (charset, page):
        name = (name or "").strip().lower()
        if CHARSETS.fullmatch(name):
            return data.decode(codec(name), "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        if cut and e.start >= len(data) - 3:
            return data.decode("utf-8", "replace")
        return data.decode("windows-1252", "replace")


def codec(name):
    # The web's ISO 8859-1 is Windows-1252: https://encoding.spec.whatwg.org
    if name in ("ascii", "us-ascii", "latin1", "latin-1", "iso-8859-1", "iso8859-1"):
        return "windows-1252"
    name = name.removeprefix("x-")
    try:
        return codecs.lookup("mac_roman" if name == "macintosh" else name).name
    except LookupError:
        return "utf-8"


def fetch(url, raw, offset):
    address = URL(required("url", url))
    between("offset", offset, 0, 0, MOST_BYTES)
    deadline = Deadline(SECONDS)
    address, answer = follow(address, deadline)
    kind = answer.headers.get_content_type() if answer.getheader("Content-Type") else ""
    status = clean(f"HTTP {answer.status} {answer.reason}".strip())
    good = 200 <= answer.status < 300
    if kind and not TEXT.fullmatch(kind) and kind not in HTML:
        if not good:
            raise Failure(f"{address.text}: {status}")
        raise Failure(f"{address.text} is {show(kind)} ({answer.getheader('Content-Length') or 'unknown'} bytes), not text")
    data, cut = body(answer)
    text = decode(data, answer.headers.get_content_charset(), cut)
    if "\0" in text[:4096]:
        raise Failure(f"{address.text} is binary ({len(data):,} bytes), not text")
    if not kind and re.match(r"\s*<(?:!doctype html|html)", text, re.I):
        kind = "text/html"
    if kind in HTML and not raw:
        text = readable(text, address.text)
    if not good:
        say(clean(text)[:2000])
        raise Failure(f"{address.text}: {status}")
    show_part(address, clean(text), offset or 0, cut)


def clean(text):
    """text without control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)


def show_part(address, text, offset, cut):
    data = text.encode("utf-8", "replace")
    if offset and offset >= len(data):
        raise Failure(f"the text has {len(data):,} bytes; offset {offset:,} is behind its end")
    begin = offset
    while begin < len(data) and data[begin] & 0xC0 == 0x80:
        begin += 1
    end = begin + MOST_OUTPUT
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    say(f"URL: {address.text}\n")
    if not data.strip():
        say("[fetch_url: the page has no text]")
        return
    tool.put(data[begin:end].rstrip(b"\n") + b"\n")
    if end < len(data):
        say(f"[fetch_url: bytes {begin:,} to {end:,} of {len(data):,}; go on with offset={end}]")
    elif cut:
        say(f"[fetch_url: the page is longer than {MOST_BYTES:,} bytes; the rest was not read]")


def main(argv):
    tool.run("fetch-url", fetch, argv, url=str, raw=bool, offset=int)
