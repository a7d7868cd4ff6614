"""Hooks of mkdocs (mkdocs.yml). A warning ends a build with --strict.

Pages link to files of the source tree, which a code host shows. The site has only docs/, so such a
link becomes the path of the file. A file that is missing is a warning.

The reference of the C++ headers is made by doxygen, beside the page reference/cpp.md. Without doxygen
the site lacks it."""

import importlib.util
import logging
import os
import re

CPP_PAGE, CPP_FOLDER = "reference/cpp.md", "reference/cpp"

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
LOG = logging.getLogger("mkdocs.hooks")


def cpp_reference():
    spec = importlib.util.spec_from_file_location(
        "cpp_reference", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                      "cpp_reference.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_post_build(config):
    module = cpp_reference()
    if not module.available():
        LOG.info("no doxygen: the site has no reference of the C++ headers")
        return
    if warnings := module.write(os.path.join(config["site_dir"], CPP_FOLDER)):
        LOG.warning("doxygen: %s", warnings)


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

    markdown = LINK.sub(replace, markdown)
    if page.file.src_path == CPP_PAGE and cpp_reference().available():
        # Plain HTML, because doxygen writes the pages after mkdocs has checked the links.
        markdown = markdown.replace(
            "\n## See also", '\n<a href="cpp/annotated.html">Classes</a>, '
            '<a href="cpp/files.html">headers</a>\n\n## See also')
    return markdown
