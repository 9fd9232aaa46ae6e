"""Calendar files as text: one paragraph an event, task or journal entry."""

import os
import re

from gateway_plugin import Rejected
from ics_lines import cut, unescaped, unfolded

SHOWN = {"VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Journal entry"}
# In this order, after the heading.
TIMES = [("DTSTART", "Starts"), ("DTEND", "Ends"), ("DUE", "Due"), ("DURATION", "Lasts"), ("COMPLETED", "Completed")]
RULES = [("RRULE", "Repeats"), ("RDATE", "Also on"), ("EXDATE", "Except on"), ("RECURRENCE-ID", "Replaces the one of")]
TEXTS = [("LOCATION", "Where"), ("STATUS", "Status"), ("PERCENT-COMPLETE", "Percent done"), ("PRIORITY", "Priority"), ("CATEGORIES", "Categories"), ("URL", "Link")]
KEPT = {name for name, _ in TIMES + RULES + TEXTS} | {"SUMMARY", "DESCRIPTION", "ORGANIZER", "ATTENDEE", "COMMENT"}
MAX_VALUES = 100
MAX_DEPTH = 32
PROGRESS_BYTES = 1024 * 1024
DATE_TIME = re.compile(r"^(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})(Z?))?$")


def write_text(path, name, output, call):
    """Reads the calendar at `path` line by line and writes its text. Returns the calendar's name."""
    reader = Reader(name, output)
    size, done, said = max(1, os.path.getsize(path)), 0, 0

    def on_bytes(count):
        nonlocal done, said
        done += count
        if done - said >= PROGRESS_BYTES:
            said = done
            call.progress(min(99, done * 100 // size))

    with open(path, "rb") as stream:
        for line in unfolded(stream, on_bytes):
            reader.take(line)
    reader.finish()
    if reader.malformed:
        call.log("warn", f"{name}: {reader.malformed} lines could not be read and were left out")
    return reader.title or os.path.splitext(name)[0]


class Reader:
    def __init__(self, name, output):
        self.name, self.output = name, output
        self.open, self.entry = [], None
        self.title, self.written, self.malformed = None, 0, 0
        self.seen_calendar = False

    def take(self, line):
        if not line.strip():
            return
        parts = cut(line)
        if parts is None:
            self.malformed += 1
            return
        name, parameters, value = parts
        if name == "BEGIN":
            self.begin(value.strip().upper())
        elif name == "END":
            self.end(value.strip().upper())
        elif not self.seen_calendar:
            self.malformed += 1
        elif self.entry is not None and self.open[-1] in SHOWN:
            self.keep(name, parameters, value)
        elif self.open == ["VCALENDAR"] and name in ("X-WR-CALNAME", "NAME") and not self.title:
            self.title = unescaped(value).strip()

    def begin(self, kind):
        if kind == "VCALENDAR":
            # A file may hold several; one that was not ended ends here.
            self.finish_entry()
            self.open, self.seen_calendar = ["VCALENDAR"], True
            return
        if not self.seen_calendar:
            raise Rejected(f"{self.name} is no calendar: it begins with {kind[:40]!r} and not with VCALENDAR")
        if len(self.open) >= MAX_DEPTH:
            raise Rejected(f"{self.name} is nested deeper than {MAX_DEPTH} levels")
        if kind in SHOWN:
            self.finish_entry()
            self.entry = {}
        self.open.append(kind)

    def end(self, kind):
        if kind not in self.open:
            self.malformed += 1
            return
        while self.open.pop() != kind:
            self.malformed += 1
        if kind in SHOWN or kind == "VCALENDAR":
            self.finish_entry(kind if kind in SHOWN else None)

    def keep(self, name, parameters, value):
        if name not in KEPT:
            return
        values = self.entry.setdefault(name, [])
        if len(values) < MAX_VALUES:
            values.append((parameters, value))
        self.entry["kind"] = self.open[-1]

    def finish_entry(self, kind=None):
        if self.entry:
            self.output.write(("\n" if self.written else "") + described(self.entry, kind or self.entry["kind"]))
            self.written += 1
        self.entry = None

    def finish(self):
        if not self.seen_calendar:
            raise Rejected(f"{self.name} is no calendar: BEGIN:VCALENDAR is missing")
        self.finish_entry()
        if self.written == 0:
            self.output.write("This calendar has no entries.\n")


def described(entry, kind):
    lines = [f"{SHOWN[kind]}: {first(entry, 'SUMMARY') or '(without a title)'}"]
    lines += [f"{label}: {', '.join(moment(*value) for value in entry[name])}" for name, label in TIMES if name in entry]
    for name, label in RULES:
        if name in entry:
            shown = [value if name == "RRULE" else moment(parameters, value) for parameters, value in entry[name]]
            lines.append(f"{label}: {', '.join(shown)}")
    lines += [f"{label}: {', '.join(one_line(value) for _, value in entry[name])}" for name, label in TEXTS if name in entry]
    lines += [f"Organizer: {person(*value)}" for value in entry.get("ORGANIZER", [])[:1]]
    if "ATTENDEE" in entry:
        lines.append("With: " + ", ".join(person(*value) for value in entry["ATTENDEE"]))
    for name in ("DESCRIPTION", "COMMENT"):
        lines += [unescaped(value).strip() for _, value in entry.get(name, []) if value.strip()]
    return "\n".join(lines) + "\n"


def first(entry, name):
    return one_line(entry[name][0][1]) if name in entry else ""


def one_line(value):
    return " ".join(unescaped(value).split())


def moment(parameters, value):
    """Dates and times so that a reader needs no calendar program; what is neither stays as it is."""
    zone = parameters.get("TZID", "").lstrip("/")
    return ", ".join(period(part.strip(), zone) for part in value.split(","))


def period(value, zone):
    return " to ".join(one_moment(part, zone) for part in value.split("/", 1))


def one_moment(value, zone):
    found = DATE_TIME.match(value)
    if not found:
        return value
    year, month, day, hour, minute, second, utc = found.groups()
    date = f"{year}-{month}-{day}"
    if hour is None:
        return date
    clock = f"{hour}:{minute}" + ("" if second == "00" else f":{second}")
    return f"{date} {clock}" + (" UTC" if utc else f" ({zone})" if zone else "")


def person(parameters, value):
    address = re.sub(r"^mailto:", "", value.strip(), flags=re.IGNORECASE)
    name = parameters.get("CN", "").strip()
    status = parameters.get("PARTSTAT", "").strip().lower()
    shown = f"{name} <{address}>" if name and name != address else address
    return f"{shown} ({status})" if status and status != "needs-action" else shown
