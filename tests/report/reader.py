"""What a browser would make of a page: its elements and its words."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        self._inside.append(tag)

    def handle_endtag(self, tag) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data) -> None:
        if not {"script", "style"} & set(self._inside):
            self.words.append(data)

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]
