"""RFC 5545's content lines: unfolded, decoded, and cut into name, parameters and value."""

import re

# Longer ones hold attached files. Their beginning is read and the rest left out.
MAX_LINE_BYTES = 256 * 1024
PARAMETER = re.compile(r';([A-Za-z0-9-]+)=((?:"[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*)')
NAME = re.compile(r"(?:[A-Za-z0-9-]+\.)?([A-Za-z0-9-]+)")
ESCAPE = re.compile(r"\\([\\;,nN])")


def unfolded(stream, on_bytes):
    """Logical lines as text. Bytes are joined before they are decoded: a fold may cut a character in two."""
    parts, size, at_line_start = [], 0, True
    while True:
        piece = stream.readline(64 * 1024)
        if not piece:
            break
        on_bytes(len(piece))
        continues = not at_line_start or piece[:1] in (b" ", b"\t")
        if not continues:
            if parts:
                yield decoded(b"".join(parts))
            parts, size = [], 0
        content = piece.rstrip(b"\r\n")
        if continues and at_line_start:
            content = content[1:]
        if size < MAX_LINE_BYTES:
            parts.append(content[: MAX_LINE_BYTES - size])
            size += len(content)
        at_line_start = piece.endswith(b"\n")
    if parts:
        yield decoded(b"".join(parts))


def decoded(line):
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def cut(line):
    """`(name, parameters, value)` with upper-case names, or None for what is no content line."""
    name = NAME.match(line)
    if not name:
        return None
    at, parameters = name.end(), {}
    while True:
        found = PARAMETER.match(line, at)
        if not found:
            break
        parameters[found.group(1).upper()] = found.group(2).replace('"', "")
        at = found.end()
    if line[at : at + 1] != ":":
        return None
    return name.group(1).upper(), parameters, line[at + 1 :]


def unescaped(value):
    """A TEXT value as it was meant."""
    return ESCAPE.sub(lambda found: "\n" if found.group(1) in "nN" else found.group(1), value)
