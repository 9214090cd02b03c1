#!/usr/bin/env python3
"""Makes the site of the documents; deploy/site.sh runs it.

usage: deploy/site/make.py FOLDER

The navigation has the lists of Documentation.md. Files of the repository that pages link to are copied to files/; links to
folders become text. A link without a target is an error.
"""

import html
import json
import os
import pathlib
import re
import shutil
import sys
from html.parser import HTMLParser

from markdown_it import MarkdownIt

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
CATALOGUE = TOP / "Sources/cloakroom/Documentation.docc"
START = CATALOGUE / "Documentation.md"
OTHERS = {
    TOP / "README.md": "Read me", TOP / "Benchmarks/README.md": "Benchmarks", TOP / "deploy/README.md": "Deploying",
    TOP / "deploy/helm/README.md": "Helm chart", TOP / "deploy/kubernetes/README.md": "Kubernetes",
    TOP / "CHANGELOG.md": "Changelog", TOP / ".github/CONTRIBUTING.md": "Contributing",
    TOP / ".github/SECURITY.md": "Security policy",
}
# Source file to the name of its page.
NAMES = {path: f"{path.stem}.html" for path in sorted(CATALOGUE.glob("*.md"))}
NAMES |= {path: title.lower().replace(" ", "-") + ".html" for path, title in OTHERS.items()} | {START: "index.html"}
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


def plain(inline):
    """The text of an inline token without its marks."""
    texts = {"softbreak": " "}
    return "".join(texts.get(child.type, child.content) for child in inline.children if child.type != "html_inline")


class Page:
    """A page: its HTML, the files that it links to, and its sections for the search: [heading, anchor, texts]."""

    def __init__(self, path):
        self.path, self.files, self.sections = path, {}, []
        used = {}
        tokens = [one for one in PARSER.parse(path.read_text()) if one.type != "html_block" or not one.content.startswith("<!--")]
        for index, token in enumerate(tokens):
            if token.type == "heading_open":
                heading = plain(tokens[index + 1])
                # As GitHub makes it.
                anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                used[anchor] = used.get(anchor, -1) + 1
                token.attrSet("id", f"{anchor}-{used[anchor]}" if used[anchor] else anchor)
                self.sections.append((heading, token.attrGet("id"), []))
            elif token.type == "inline":
                self.convert_links(token)
                if tokens[index - 1].type != "heading_open":
                    self.sections[-1][2].append(plain(token))
            elif token.type == "fence":
                self.sections[-1][2].append(token.content)
        self.title = "Overview" if path == START else OTHERS.get(path, self.sections[0][0])
        body = PARSER.renderer.render(tokens, PARSER.options, {})
        body = re.sub(r'(src(?:set)?=")([^":]+)(?=")', lambda match: match[1] + self.target(match[2]), body)
        self.body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")

    def convert_links(self, inline):
        for index, token in enumerate(inline.children):
            if token.type == "link_open" and (target := self.target(token.attrGet("href"))):
                token.attrSet("href", target)
            elif token.type == "link_open":
                token.tag, token.attrs = "span", {}
                next(other for other in inline.children[index:] if other.type == "link_close").tag = "span"

    def target(self, link):
        """The link in the site; `None` for a folder."""
        file, sign, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not file:
            return link
        path = pathlib.Path(os.path.normpath(self.path.parent / file))
        if path in NAMES or path.is_dir():
            return NAMES[path] + sign + anchor if path in NAMES else None
        name = f"files/{path.relative_to(TOP)}".replace("/.", "/")
        self.files[name] = path
        return name


def navigation(pages, current):
    groups = [("Cloakroom", [START])]
    for part in START.read_text().partition("## Topics")[2].split("\n### ")[1:]:
        groups.append((part.partition("\n")[0], [CATALOGUE / name for name in re.findall(r"^- \[.*?\]\((.+?)\)", part, re.MULTILINE)]))
    lines = []
    for title, paths in [*groups, ("Project", OTHERS)]:
        marks = {current: ' aria-current="page"'}
        links = [f'<li><a href="{NAMES[path]}"{marks.get(path, "")}>{html.escape(pages[path].title)}</a></li>' for path in paths]
        lines.append(f"<h2>{title}</h2><ul>{''.join(links)}</ul>")
    return "\n".join(lines)


def search_index(pages):
    """[page title, heading, address, words] of each section."""
    for path, page in pages.items():
        for heading, anchor, texts in page.sections:
            words = {word for word in re.findall(r"[\w.-]*\w", " ".join(texts).lower()) if len(word) > 2 and not word.isdigit()}
            yield [page.title, heading, f"{NAMES[path]}#{anchor}", " ".join(sorted(words))]


class Links(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src", "srcset") and not re.match(r"[a-z]+:", value):
                self.links.append(value)


def dead_links(folder):
    found = {file.name: Links(file.read_text()) for file in folder.glob("*.html")}
    for name, page in sorted(found.items()):
        for link in page.links:
            file, _, anchor = link.partition("#")
            if not (folder / (file or name)).is_file() or anchor and anchor not in found[file or name].anchors:
                yield f"{name}: the link {link} has no target"


def main(folder):
    if any(folder.iterdir()):
        sys.exit(f"site: {folder} is not empty")
    pages = {path: Page(path) for path in NAMES}
    template = (HERE / "page.html").read_text()
    copied = {name: HERE / name for name in ("style.css", "search.js")}
    for path, page in pages.items():
        text = template.format(title=html.escape(page.title), navigation=navigation(pages, path), body=page.body)
        (folder / NAMES[path]).write_text(text)
        copied |= page.files
    for name, file in copied.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if file.is_file():
            shutil.copyfile(file, folder / name)
    # A script, because pages that are opened from a folder may not fetch files.
    index = json.dumps(list(search_index(pages)), ensure_ascii=False, separators=(",", ":"))
    (folder / "search-index.js").write_text(f"globalThis.searchIndex = {index};\n")
    dead = list(dead_links(folder))
    for problem in dead:
        print(f"site: {problem}", file=sys.stderr)
    print(f"site: {len(pages)} pages in {folder}, {len(index) // 1000} kB to search")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
