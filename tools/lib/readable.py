"""Turns HTML into text that reads well: headings, paragraphs, lists, links."""

import html.parser
import re
import urllib.parse

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
SILENT = {"script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "audio", "video",
          "select", "datalist", "dialog", "button"}
BLOCK = {"address", "article", "aside", "body", "caption", "center", "dd", "details", "div", "dl", "dt", "fieldset",
         "figcaption", "figure", "footer", "form", "header", "hgroup", "html", "legend", "main", "nav", "p", "search",
         "section", "summary", "table", "tbody", "tfoot", "thead"}
CELLS = {"td", "th"}
ROWS = {"tr", "thead", "tbody", "tfoot"}
LISTS = {"ul", "ol", "menu", "dir"}
HEADINGS = {f"h{n}": n for n in range(1, 7)}
# What ends an element whose end tag HTML lets authors leave out.
ENDED_BY = {
    "p": BLOCK | LISTS | set(HEADINGS) | CELLS | ROWS | {"blockquote", "hr", "li", "pre"},
    "li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "td": CELLS | ROWS, "th": CELLS | ROWS, "tr": ROWS, "option": {"option"},
}
DEEPEST = 1000
# Lines are built by appending; longer ones than this would take too long.
LONGEST = 10_000
GIANT = re.compile(r"&#[0-9]{9,}")
HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


def readable(text, url):
    """The text of a page; url is what its links are relative to."""
    parser = Reader(url)
    # html.parser searches the end of each comment anew, and an open one hides
    # the rest of the page anyway.
    end = text.rfind("-->") + 1
    if text.count("<!--", end) > 20:
        text = text[:text.index("<!--", end)]
    # Python does not read numbers of thousands of digits; no character has nine.
    parser.feed(GIANT.sub("&#999999999", text))
    parser.close()
    return parser.result()


class Reader(html.parser.HTMLParser):
    def __init__(self, url):
        super().__init__(convert_charrefs=True)
        self.base = url
        self.title = ""
        self.in_title = False
        self.open = []  # the tags that are open
        self.silent = None  # how many were, when one began whose content is not shown
        self.lines = []
        self.line = ""  # what is not yet in lines
        self.lists = []  # None for a bulleted list, else the number of its last item
        self.quotes = 0
        self.marker = ""  # of a list item that has no text yet
        self.pre = 0
        self.links = []  # (href, length of the text before)
        self.cells = 0

    # Blocks.

    def prefix(self):
        depth = max(0, len(self.lists) - 1)
        return "> " * min(self.quotes, 10) + "  " * min(depth, 20)

    def flush(self):
        """Ends the line."""
        text = self.line if self.pre else re.sub(r"[ \t]+", " ", self.line).strip()
        self.line = ""
        self.cells = 0
        self.links = [(href, 0) for href, _ in self.links]
        if not text.strip():
            return
        if self.marker:
            begin, self.marker = self.prefix() + self.marker, ""
        else:
            begin = self.prefix() + ("  " if self.lists else "")
        rest = self.prefix() + ("  " if self.lists else "")
        for i, piece in enumerate(text.split("\n")):
            self.lines.append((begin if i == 0 else rest) + piece)

    def gap(self):
        """Ends the line; the next comes after an empty one."""
        self.flush()
        if self.lines and self.lines[-1] and not self.marker:
            self.lines.append("")

    # What html.parser calls.

    def parse_html_declaration(self, i):
        # By the rules of SGML, which html.parser has for these, a broken one
        # ends everything; by those of HTML it is a comment.
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def handle_starttag(self, tag, attrs):
        attrs = {name: value or "" for name, value in attrs}
        self.push(tag)
        if self.silent is not None:
            return
        if tag not in VOID and (tag in SILENT or is_hidden(tag, attrs)):
            self.silent = len(self.open)
            return
        if tag == "base" and attrs.get("href"):
            self.base = join(self.base, attrs["href"]) or self.base
        elif tag == "title" and not self.title:
            self.in_title = True
        elif tag == "br":
            self.line_break()
        elif tag == "hr":
            self.gap()
            self.lines += ["---", ""]
        elif tag == "img":
            self.image(attrs)
        elif tag == "a":
            self.end_link()
            self.links.append((attrs.get("href", ""), len(self.line)))
        else:
            self.begin(tag, attrs)

    def begin(self, tag, attrs):
        if tag in HEADINGS:
            self.gap()
            self.line = "#" * HEADINGS[tag] + " "
        elif tag == "pre":
            self.gap()
            if self.marker:
                self.lines.append(self.prefix() + self.marker.rstrip())
                self.marker = ""
            self.lines.append(self.prefix() + "```")
            self.pre += 1
        elif tag in LISTS:
            self.flush() if self.lists else self.gap()
            start = attrs.get("start", "1")
            number = int(start) - 1 if re.fullmatch(r"-?\d{1,6}", start) else 0
            self.lists.append(number if tag == "ol" else None)
        elif tag == "li":
            self.flush()
            self.item()
        elif tag == "blockquote":
            self.gap()
            self.quotes += 1
        elif tag == "tr":
            self.flush()
        elif tag in CELLS:
            if self.cells:
                self.line += " | "
            self.cells += 1
        elif tag == "code" and not self.pre:
            self.line += "`"
        elif tag in BLOCK and not (tag == "p" and self.marker) and not self.cells:
            self.gap() if tag in ("p", "table", "dl") else self.flush()
        elif tag in BLOCK:
            self.line += " "

    def item(self):
        if not self.lists or self.lists[-1] is None:
            self.marker = "- "
        else:
            self.lists[-1] += 1
            self.marker = f"{self.lists[-1]}. "

    def line_break(self):
        if self.pre:
            self.line += "\n"
        elif self.cells:
            self.line += " "
        else:
            self.flush()

    def push(self, tag):
        """Opens an element, and ends those that it ends."""
        while self.open and tag in ENDED_BY.get(self.open[-1], ()):
            self.pop()
        if tag == "body":
            self.silent = None
        if tag in VOID:
            return
        if len(self.open) == DEEPEST:
            # Broken pages never close anything; the outermost matter least.
            half = DEEPEST // 2
            del self.open[:half]
            if self.silent is not None:
                self.silent = max(1, self.silent - half)
        self.open.append(tag)

    def pop(self):
        tag = self.open.pop()
        if self.silent is not None and len(self.open) < self.silent:
            self.silent = None
        return tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID and tag in ("svg", "math", "iframe", "template", "object"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag in VOID:
            if tag == "br" and self.silent is None:
                self.line_break()
            return
        if tag in self.open:
            was_silent = self.silent is not None
            while self.pop() != tag:
                pass
            if was_silent:
                return
        if self.silent is None:
            self.end(tag)

    def end(self, tag):
        if tag == "title":
            self.in_title = False
        elif tag == "a":
            self.end_link()
        elif tag in HEADINGS:
            if not self.line.strip("# "):
                self.line = ""
            self.gap()
        elif tag == "pre" and self.pre:
            self.line = self.line.strip("\n")
            self.flush()
            self.pre -= 1
            self.lines += [self.prefix() + "```", ""]
        elif tag in LISTS and self.lists:
            self.flush()
            self.marker = ""
            self.lists.pop()
            if not self.lists:
                self.gap()
        elif tag == "blockquote" and self.quotes:
            self.flush()
            self.quotes -= 1
            self.gap()
        elif tag == "code" and not self.pre:
            self.line += "`"
        elif tag in ("li", "tr"):
            self.flush()
            self.marker = ""
        elif tag in BLOCK and not self.cells:
            self.gap() if tag in ("p", "table", "dl") else self.flush()
        elif tag == "table":
            self.gap()

    def handle_data(self, data):
        if self.in_title:
            self.title += data
        elif self.silent is None and not (self.open and self.open[-1] == "head"):
            if self.pre:
                self.line += data.replace("\r\n", "\n")
            else:
                self.line += re.sub(r"\s+", " ", data)
            if len(self.line) > LONGEST:
                self.relieve()

    def relieve(self):
        """Takes over what there is of a very long line or block of code."""
        if not self.pre:
            self.flush()
            return
        *lines, self.line = self.line.lstrip("\n").split("\n")
        self.lines += lines

    def image(self, attrs):
        alt = " ".join(attrs.get("alt", "").split())
        if alt:
            self.line += f"[image: {alt}]"

    def end_link(self):
        if not self.links:
            return
        href, at = self.links.pop()
        target = join(self.base, href) if href and not href.startswith("#") else None
        text = self.line[at:].strip()
        # A link around blocks has its last text only; one that was cut has none.
        if target and text and at <= len(self.line) and not self.pre and text != target:
            blank = " " if self.line[at:at + 1] == " " else ""
            self.line = f"{self.line[:at]}{blank}[{text}]({target})"

    def result(self):
        if self.pre:
            self.end("pre")
        self.gap()
        title = " ".join(self.title.split())
        lines = ([f"Title: {title}", ""] if title else []) + [line.rstrip() for line in self.lines]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        return text + "\n"


def is_hidden(tag, attrs):
    if tag in ("html", "body"):
        return False  # until a script shows them
    return "hidden" in attrs or attrs.get("aria-hidden", "").lower() == "true" or bool(HIDDEN_STYLE.search(attrs.get("style", "")))


def join(base, href):
    """The absolute form of a link to the web; None for others."""
    try:
        url = urllib.parse.urljoin(base, href.strip())
    except ValueError:
        return None
    if not url.startswith(("http://", "https://", "mailto:")):
        return None
    return "".join(c if c.isprintable() and c not in " ()<>" else urllib.parse.quote(c, errors="replace") for c in url)
