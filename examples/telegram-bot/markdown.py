"""An agent's Markdown in Telegram's form: a plain text, and entities that say which parts of it are bold, code or a link.

Entities cannot break a message, as a parse_mode does at one sign too many. What is not known here stays as it is written: tables, pictures,
HTML. https://core.telegram.org/bots/api#messageentity"""

import re

FENCE = re.compile(r"^```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^```[ \t]*(?:\n|\Z)|\Z)", re.M | re.S)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
ITEM = re.compile(r"^(\s*)[-*+] +")
INLINE = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|\*\*(?P<bold>(?=\S)[^\n]+?)\*\*"
    r"|~~(?P<strikethrough>(?=\S)[^\n]+?)~~"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*\n]*[^\s*])?)\*(?![\w*])"
    r"|(?<!\w)_(?P<italic_>[^\s_](?:[^_\n]*[^\s_])?)_(?!\w)"
    r"|(?<!!)\[(?P<text_link>[^\]\n]+)\]\((?P<url>https?://[^\s()]+)\)"
)


def whole(parts):
    """Closes a block of code at the end of a part, and opens it again in the next one."""
    opening = None
    for part in parts:
        part = (opening or "") + part
        fences = re.findall(r"^```[^\n]*$", part, re.M)
        opening = fences[-1] + "\n" if len(fences) % 2 else None
        yield part


def formatted(text):
    """Returns the plain text and its entities. Their places are in UTF-16 code units."""
    page = Page()
    at = 0
    for block in FENCE.finditer(text):
        page.lines(text[at : block.start()])
        language = {"language": block[1]} if block[1] else {}
        page.entity("pre", lambda: page.put(block[2].rstrip("\n")), **language)
        page.put("\n" if block[0].endswith("\n") else "")
        at = block.end()
    page.lines(text[at:])
    if not page.text.strip():
        return text, []
    return page.text.rstrip("\n"), page.entities


class Page:
    def __init__(self):
        self.text, self.length, self.entities = "", 0, []

    def put(self, text):
        self.text += text
        self.length += len(text.encode("utf-16-le", "surrogatepass")) // 2

    def entity(self, kind, write, **more):
        place = {"type": kind, "offset": self.length, **more}
        self.entities.append(place)
        write()
        place["length"] = self.length - place["offset"]
        if not place["length"]:
            self.entities.remove(place)

    def lines(self, text):
        for line in text.splitlines(keepends=True):
            words = line.rstrip("\n")
            heading = HEADING.match(words)
            if heading:
                self.entity("bold", lambda: self.inline(heading[1]))
            else:
                self.inline(ITEM.sub(r"\1• ", words))
            self.put(line[len(words) :])

    def inline(self, line):
        at = 0
        for m in INLINE.finditer(line):
            self.put(line[at : m.start()])
            at = m.end()
            kind = "text_link" if m["url"] else m.lastgroup
            inner = m[kind]
            write = (lambda: self.put(inner)) if kind == "code" else (lambda: self.inline(inner))
            self.entity(kind.rstrip("_"), write, **({"url": m["url"]} if m["url"] else {}))
        self.put(line[at:])
