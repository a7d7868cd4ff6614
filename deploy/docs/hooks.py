"""A hook of mkdocs (mkdocs.yml). Pages link to files of the source tree, which a code host shows.
The site has only docs/, so such a link becomes the path of the file. A file that is missing is a
warning, which ends a build with --strict."""

import logging
import os
import re

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
LOG = logging.getLogger("mkdocs.hooks.source_links")


def on_page_markdown(markdown, page, config, files):
    docs = os.path.abspath(config["docs_dir"])
    folder = os.path.dirname(page.file.abs_src_path)

    def replace(match):
        text, link = match.groups()
        path = os.path.normpath(os.path.join(folder, link.partition("#")[0]))
        if re.match(r"[a-z]+:|#", link) or path.startswith(docs + os.sep):
            return match.group(0)
        if not os.path.exists(path):
            LOG.warning("%s: %s does not exist", page.file.src_path, link)
        shown = os.path.relpath(path, os.path.dirname(docs))
        return f"`{shown}`" if text.strip("`") in shown else f"{text} (`{shown}`)"

    return LINK.sub(replace, markdown)
