"""What the binary shows on a terminal of 80 columns and on one of 60, with 24 rows, as a terminal shows it: pyte's.

    captures.py BINARY FOLDER

Runs each command of CAPTURES in terminals of its own and prints everything that is wrong: a row that is wider than the
terminal, a colour that is none of the sixteen, or anything that moves the cursor other than on to the next line and back
to the beginning of a line that is taken away. What is shown is compared with FOLDER/NAME.txt and FOLDER/60/NAME.txt, where
it is kept, times left out. With UPDATE_CAPTURES=1 these files are written, and FOLDER/NAME.png, the wide terminal with a
dark and a light ground; PICTURES=FOLDER writes pictures of everything there, to look at. For pictures Pillow and the fonts
of DejaVu have to be there: they are needed for nothing else. Ends with 1 when anything is wrong.
"""

import fcntl
import os
import pathlib
import re
import select
import signal
import struct
import sys
import termios
import time

import pyte
from wcwidth import wcswidth

ROWS = 24
# The columns of each terminal, and the folder of its texts.
TERMINALS = [(80, "."), (60, "60")]
# The test fails when a command takes longer, and the command is killed.
LONGEST = 60
HERE = pathlib.Path(__file__).parent
HOSTILE = ["--", sys.executable, str(HERE / "hostile.py")]
LEGACY = ["--era", "legacy"]
# The binary is found on PATH.
CONFIGURED = ["--mcp-config", '{"mcpServers": {"demo": {"command": "mcpjoin", "args": ["serve", "demo"]}, "gone": {"command": "cat"}}}']

# Each name, the words, and what is kept: nothing, the texts, or the texts and a picture of the wide terminal. The editor of
# `shell` moves the cursor, so it is not among them.
NOTHING, TEXT, PICTURE = range(3)
# What a command that serves prints last. At this text it is interrupted.
UNTIL = {
    "listening": "listening on http://127.0.0.1:",
    "joined": "/NAME",
    "serving": "listening on http://127.0.0.1:",
}
CAPTURES = [
    ("help", ["--help"], PICTURE),
    ("list", ["list", "demo:"], PICTURE),
    ("info", ["info", "demo:"], PICTURE),
    ("call", ["call", "demo:full", "test_multiple_content_types"], PICTURE),
    ("tool", ["tool", "demo:full", "json_schema_2020_12_tool"], PICTURE),
    ("refused", ["call", "demo:", "add", "a=1", "b=x"], TEXT),
    ("read", ["read", "demo:", "demo://about"], TEXT),
    ("prompt", ["prompt", "demo:", "translate", "text=Hello", "language=German"], TEXT),
    ("complete", ["complete", "demo:", "prompt:translate", "language="], TEXT),
    ("ping", ["ping", "demo:"], TEXT),
    ("servers", ["servers", *CONFIGURED], PICTURE),
    ("list-all", ["list", "--connect-timeout", "2s", *CONFIGURED], PICTURE),
    ("search", ["search", "add", "--connect-timeout", "2s", *CONFIGURED], TEXT),
    ("diff", ["diff", "demo:", "demo:full"], PICTURE),
    ("auth", ["auth", "explain", "http://127.0.0.1:1/mcp"], TEXT),
    ("login", ["auth", "login", "http://127.0.0.1:1/mcp"], TEXT),
    ("logins", ["auth", "status"], TEXT),
    ("bridge", ["bridge", "--listen", "9402", "demo:"], TEXT),
    ("listening", ["bridge", "--listen", "http://127.0.0.1:0/mcp", "demo:"], TEXT),
    ("joined", ["bridge", "--listen", "http://127.0.0.1:0/mcp", *CONFIGURED], PICTURE),
    ("serve", ["serve", "demo", "--port", "9402"], TEXT),
    ("serving", ["serve", "demo", "--listen", "http://127.0.0.1:0/mcp"], TEXT),
    ("validate", ["validate", "demo:"], PICTURE),
    ("doctor", ["doctor", "demo:"], PICTURE),
    ("failure", ["list", "--connect-timeout", "1s", "cat"], PICTURE),
    ("hostile-list", ["list", *LEGACY, *HOSTILE], PICTURE),
    ("hostile-call", ["call", "--force", *LEGACY, "plain", *HOSTILE], PICTURE),
    ("hostile-describe", ["list", "--describe", "-vv", *LEGACY, *HOSTILE], NOTHING),
    ("hostile-info", ["info", "-v", *LEGACY, *HOSTILE], NOTHING),
    ("hostile-tool", ["tool", *LEGACY, "plain", *HOSTILE], NOTHING),
    ("hostile-error", ["call", "-vv", *LEGACY, "none", *HOSTILE], NOTHING),
    ("hostile-doctor", ["doctor", *LEGACY, *HOSTILE], NOTHING),
    ("hostile-validate", ["validate", *LEGACY, *HOSTILE], NOTHING),
]

# Back to the first column, and away with the line: how progress is taken away.
TAKEN_AWAY = "\r\x1b[K"
STYLE = re.compile(r"\x1b\[([0-9;]*)m")
# Off, bold, faint, italic, underlined, and the sixteen colours before and behind.
STYLES = {0, 1, 2, 3, 4, 22, 23, 24, 39, 49} | {*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)}


def shown(columns, words, until):
    """Everything that is written to a terminal with that many columns. At `until` the command is interrupted."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        for stream in (0, 1, 2):
            os.dup2(theirs, stream)
        os.closerange(3, 64)
        for variable in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "CI", "MCP_CONFIG_PATH"):
            os.environ.pop(variable, None)
        os.environ.update(TERM="xterm-256color", XDG_CONFIG_HOME="/nowhere", XDG_CACHE_HOME="/nowhere/cache")
        os.environ.update(XDG_STATE_HOME="/nowhere/state", PATH=f"{os.path.dirname(words[0])}:{os.environ['PATH']}")
        os.execvp(words[0], words)
    os.close(theirs)
    data, end = b"", time.monotonic() + LONGEST
    while True:
        if not select.select([ours], [], [], max(end - time.monotonic(), 0))[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise SystemExit(f"{words}: no end within {LONGEST} s")
        try:
            read = os.read(ours, 65536)
        except OSError:  # Nobody holds the other side any more.
            read = b""
        if not read:
            break
        data += read
        if until and until in data.decode("utf-8", "replace"):
            os.kill(pid, signal.SIGINT)
            until = None
    os.close(ours)
    os.waitpid(pid, 0)
    return data.decode("utf-8")


class Screen(pyte.Screen):
    """As many rows as there are, and a list of what moves the cursor or changes the terminal."""

    def __init__(self, columns, rows):
        self.moved = []
        super().__init__(columns, rows)
        self.moved.clear()

    def erase_in_line(self, how=0, private=False):
        # Only at the beginning of the line: there a line is taken away.
        if how or private or self.cursor.x:
            self.moved.append("erase_in_line")
        super().erase_in_line(how, private)


def forbid(name):
    allowed = getattr(pyte.Screen, name)

    def moved(self, *args, **kwargs):
        self.moved.append(name)
        return allowed(self, *args, **kwargs)

    setattr(Screen, name, moved)


# What goes on to the next line calls `index` and `cursor_down`, and making a screen begins with `reset`.
ALLOWED = {"draw", "linefeed", "index", "cursor_down", "carriage_return", "select_graphic_rendition", "erase_in_line", "tab", "reset"}
for event in pyte.Stream.events - ALLOWED:
    forbid(event)


def lines(text):
    """The lines that remain, without styles, before a terminal folds them."""
    for line in text.replace("\r\n", "\n").split("\n"):
        yield STYLE.sub("", line.split(TAKEN_AWAY)[-1])


def wrong(text, screen):
    """Whatever must not be in it."""
    for codes in STYLE.findall(text):
        others = [code for code in codes.split(";") if int(code or 0) not in STYLES]
        if others:
            yield f"a style or colour that not every terminal has: {codes}"
    rest = STYLE.sub("", text.replace(TAKEN_AWAY, "")).replace("\r\n", "\n")
    for sign in sorted({sign for sign in rest if sign != "\n" and not sign.isprintable() and sign != "\t"}):
        yield f"a terminal would obey or hide {sign!r}"
    for move in sorted(set(screen.moved)):
        yield f"the cursor was moved, or the terminal changed: {move}"
    if screen.title or screen.icon_name:
        yield f"the title was changed: {screen.title!r}"


def wide(columns, text):
    """Rows that are wider than the terminal. One word or command that has to stay whole may be wider, below or behind a label, and so may what
    people copy: a message in a report, and the example of a tool."""
    before = ""
    for line in lines(text):
        copied = line.startswith(("  sent      {", "  received  {")) or before == "Example"
        before = line
        if copied:
            continue
        last = re.split("  +", line.strip())[-1]
        if wcswidth(line) > columns and " " in last and not last.startswith("mcpjoin "):
            yield f"a row of {wcswidth(line)} columns: {line[:60]}..."


def timeless(text):
    """Without what differs from run to run: times, processes, ports, versions."""
    text = re.sub(r" *\b[0-9]+(\.[0-9]+)? (ms|s)\b", " # ms", text)
    text = re.sub(r"\bprocess [0-9]+", "process #", text)
    text = re.sub(r"\b127\.0\.0\.1:[0-9]{4,5}/", "127.0.0.1:#/", text)
    return re.sub(r"\b[0-9]+\.[0-9]+\.[0-9]+\b", "#.#.#", text)


def capture(columns, binary, name, words):
    """What is written, and the screen on which it is shown."""
    text = shown(columns, [binary, *words], UNTIL.get(name))
    rows = sum(max(wcswidth(line), 0) // columns + 1 for line in lines(text)) + ROWS
    screen = Screen(columns, max(rows, ROWS))
    pyte.Stream(screen).feed(text)
    return text, screen


def kept(screen, binary, words):
    """The rows of a screen as a text."""
    rows = "\n".join(row.rstrip() for row in screen.display).rstrip()
    rows = rows.replace(binary, "mcpjoin")
    typed = " ".join("python interop/captures/hostile.py" if word == HOSTILE[1] else word for word in words)
    typed = typed.replace(f" {HOSTILE[2]}", "")
    return timeless(f"$ mcpjoin {typed}\n{rows}\n")


def draw(screen, file):
    sys.dont_write_bytecode = True
    import picture

    picture.draw(screen, ROWS, file)


def main():
    binary, folder = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    update, pictures = os.environ.get("UPDATE_CAPTURES") == "1", os.environ.get("PICTURES")
    problems = []
    for columns, below in TERMINALS:
        for name, words, keeps in CAPTURES:
            text, screen = capture(columns, binary, name, words)
            # A result is shown as it is: nobody folds it.
            folded = [] if name == "hostile-call" else wide(columns, text)
            problems += [f"{name}, {columns} columns: {problem}" for problem in [*wrong(text, screen), *folded]]
            if pictures:
                draw(screen, pathlib.Path(pictures) / f"{name}-{columns}.png")
            # The path in it has another length on every machine.
            if keeps == NOTHING or (name, below) == ("doctor", "60"):
                continue
            file, now = folder / below / f"{name}.txt", kept(screen, binary, words)
            if update:
                file.parent.mkdir(exist_ok=True)
                file.write_text(now)
                if keeps == PICTURE and below == ".":
                    draw(screen, folder / f"{name}.png")
            elif not file.exists() or file.read_text() != now:
                problems.append(f"{name}: {file} has another text (UPDATE_CAPTURES=1 writes it); it is now:\n{now}")
    print("\n".join(problems) or f"{len(TERMINALS) * len(CAPTURES)} captures, nothing wrong")
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
