"""maru top in a terminal's emulator (pyte): what is on the screen, at several sizes, and the terminal
behind it as it was. Needs maru on the PATH.
terminal.py WORD            the test; the command of three runs that are alive, and of no others, holds
                            the word, that of one of them also long-name behind it
terminal.py WORD FOLDER     pictures of its screens, dark and light (needs Pillow)"""

import ctypes
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import pyte

SIZES = [(80, 24), (40, 10), (132, 43), (200, 60)]
PR_SET_PDEATHSIG = 1
DEFAULT = (signal.SIGTTOU, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGPIPE)
PATIENCE = 60  # seconds, for what takes less than one


class Screen(pyte.Screen):
    """Remembers whether the alternate screen is in use: pyte draws both in one."""

    alternate = False

    def set_mode(self, *modes, **how):
        self.alternate |= how.get("private", False) and 1049 in modes
        super().set_mode(*modes, **how)

    def reset_mode(self, *modes, **how):
        self.alternate &= not (how.get("private", False) and 1049 in modes)
        super().reset_mode(*modes, **how)


def started(slave, command, environment):
    """Runs it in the foreground of the terminal, under a parent that could continue it, as a shell
    does: else Ctrl-Z stops nothing. Its number, and where its changes of state are told."""
    told, tell = os.pipe()
    leader = os.fork()
    if leader == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # and the terminal ends the child
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(slave, os.getpgrp())
            # Also those that whoever started the test ignores: top would leave them so.
            for number in DEFAULT:
                signal.signal(number, signal.SIG_DFL)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm-256color", **environment})
            os.execvp(command[0], command)
        os.write(tell, b"%d\n" % child)
        while True:
            status = os.waitpid(child, os.WUNTRACED)[1]
            os.write(tell, b"%d\n" % status)
            if not os.WIFSTOPPED(status):
                os._exit(0)
    os.close(tell)
    changes = os.fdopen(told, "rb", buffering=0)
    return int(changes.readline()), changes


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, size, command, **environment):
        self.screen = Screen(*size)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self.resize_pty(size)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.written = b""
        self.child, self.told = started(slave, command, environment)

    def resize_pty(self, size):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def resize(self, size):
        self.screen.resize(lines=size[1], columns=size[0])
        self.resize_pty(size)

    def read(self, seconds):
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self.written += data
            self.stream.feed(data)
            seconds = 0

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def until(self, what, holds):
        """Reads until the screen holds it."""
        end = time.monotonic() + PATIENCE
        while not holds(self):
            assert time.monotonic() < end, "not in time: %s\n%s" % (what, "\n".join(self.lines()))
            self.read(0.2)

    def press(self, keys, what, holds):
        os.write(self.master, keys)
        self.until(what, holds)

    def status(self):
        """Once it has ended; None: it stopped."""
        end = time.monotonic() + PATIENCE
        while not select.select([self.told], [], [], 0)[0]:
            assert time.monotonic() < end, "it neither ends nor stops"
            self.read(0.05)
        self.read(0)
        status = int(self.told.readline())
        return None if os.WIFSTOPPED(status) else status

    def restored(self):
        assert termios.tcgetattr(self.slave) == self.before, "the terminal's attributes are not restored"
        assert not self.screen.alternate, "still on the alternate screen"
        assert not self.screen.cursor.hidden, "the cursor is hidden"
        assert pyte.modes.DECAWM in self.screen.mode, "lines wrap no more"


def chosen(terminal):
    """The selected run's line."""
    marked = [line for line in terminal.lines() if line.startswith(">")]
    return marked[0] if len(marked) == 1 else None


def top(size, word, **environment):
    """maru top that shows the test's runs: others of this user may be alive."""
    terminal = Terminal(size, ["maru", "top", "--interval", "0.3"], **environment)
    terminal.until("a selected run", chosen)
    terminal.press(b"/" + word.encode(), "the filter", lambda t: word in t.lines()[-1])
    terminal.press(b"\r", "three runs", lambda t: is_ready(t) and len(listed(t)) == 3)
    return terminal


def is_ready(terminal):
    return "3 of " in terminal.lines()[0] and terminal.lines()[-1].startswith("q quit")


def listed(terminal):
    """The process numbers of the list, between its heads and the rooms."""
    numbers = []
    for line in terminal.lines()[2:]:
        words = line[1:].split()
        if not words or "1 all" in line or not words[0].isdigit():
            break
        numbers.append(words[0])
    return numbers


def is_whole(terminal):
    """The keys' line is the last one and the title the first: nothing was scrolled, nothing wrapped."""
    lines = terminal.lines()
    assert len(lines) == terminal.screen.lines and lines[-1].startswith("q quit  ? help"), lines
    assert lines[0].startswith("maru top"), lines
    assert lines[1].lstrip().startswith("PID") and "COMMAND" in lines[1], lines


def number(line):
    return line[1:].split()[0]


def at_each_size(word):
    for size in SIZES:
        terminal = top(size, word)
        is_whole(terminal)
        terminal.press(b"N", "sorted by number", lambda t: "PID▲" in t.lines()[1])
        ordered = listed(terminal)
        terminal.press(b"\x1b[F", "the last run", lambda t: number(chosen(t) or "> x") == ordered[2])
        terminal.press(b"k", "the one before", lambda t: number(chosen(t) or "> x") == ordered[1])
        terminal.press(b"?", "the help", lambda t: "Runs" in t.lines()[1] and t.lines()[-1].startswith("Esc back"))
        terminal.press(b"\x1b", "the list", lambda t: chosen(t) and is_ready(t))
        is_whole(terminal)
        os.write(terminal.master, b"q")
        assert terminal.status() == 0
        terminal.restored()


def keys(word):
    terminal = top((80, 24), word)
    terminal.press(b"N", "sorted by number", lambda t: "PID▲" in t.lines()[1])
    ordered = listed(terminal)
    assert ordered == sorted(ordered, key=int), ordered
    terminal.press(b"g", "the first", lambda t: number(chosen(t) or "> x") == ordered[0])
    terminal.press(b"\x1b[B", "the second", lambda t: number(chosen(t) or "> x") == ordered[1])
    terminal.press(b"r", "turned", lambda t: "PID▼" in t.lines()[1] and terminal.lines()[3].startswith(">"))
    assert number(chosen(terminal)) == ordered[1], "the selection did not stay on its run"
    terminal.press(b"j", "the last", lambda t: number(chosen(t) or "> x") == ordered[0])
    terminal.press(b"/ LONG-name", "one run", lambda t: len(listed(t)) == 1)
    terminal.press(b"\r", "the filter kept", lambda t: t.lines()[-1].startswith("q quit"))
    assert "long-name" not in chosen(terminal) and chosen(terminal).endswith("…"), chosen(terminal)
    terminal.press(b"\x1b[C" * 13, "the command's end", lambda t: "long-name" in chosen(t))
    terminal.press(b"\x1b", "all runs", lambda t: len(listed(t)) >= 3)
    terminal.press(b"4", "the steer room", lambda t: any("from /proc" in line for line in t.lines()))
    terminal.press(b"\r", "it alone", lambda t: "Esc all runs" in t.lines()[-1] and chosen(t))
    terminal.press(b"\x1b[Z", "the room before", lambda t: "nothing to show" in "\n".join(t.lines()))
    terminal.press(b"\x1b", "the list", lambda t: t.lines()[0].startswith("maru top"))
    return terminal


def resizing(terminal):
    for size in [(40, 10), (20, 5), (8, 2), (1, 1), (132, 43), (80, 24)]:
        terminal.resize(size)
        terminal.until("drawn at %d x %d" % size, lambda t: chosen(t) is not None)
        if size[1] >= 10:
            terminal.until("keys", lambda t: t.lines()[-1].startswith("q quit  ? help"))
            is_whole(terminal)


def suspended(terminal):
    os.write(terminal.master, b"\x1a")
    assert terminal.status() is None, "Ctrl-Z does not stop it"
    terminal.restored()
    os.kill(terminal.child, signal.SIGCONT)
    terminal.until("drawn again", lambda t: t.screen.alternate and chosen(t))
    is_whole(terminal)


def stopped(terminal):
    """By a signal that it cannot catch: its shell sets the terminal as it wants it."""
    during = termios.tcgetattr(terminal.slave)
    os.kill(terminal.child, signal.SIGSTOP)
    assert terminal.status() is None, "SIGSTOP does not stop it"
    termios.tcsetattr(terminal.slave, termios.TCSANOW, terminal.before)
    terminal.stream.feed(b"\x1b[?1049l\x1b[2J$ fg\r\n")
    os.kill(terminal.child, signal.SIGCONT)
    terminal.until("drawn again", lambda t: t.screen.alternate and chosen(t))
    terminal.until("keys without return", lambda t: termios.tcgetattr(t.slave) == during)
    is_whole(terminal)


def endings(word):
    for how in (b"q", b"\x03", signal.SIGTERM, signal.SIGHUP):
        terminal = top((80, 24), word)
        if isinstance(how, bytes):
            os.write(terminal.master, how)
        else:
            os.kill(terminal.child, how)
        status = terminal.status()
        terminal.restored()
        wanted = {b"q": 0, b"\x03": 130 << 8}.get(how, how)
        assert status == wanted, "%r: status %r" % (how, status)


def failing():
    """What fails behind the screen ends it, and is said on the screen before."""
    terminal = Terminal((80, 24), ["maru", "top", "--interval", "0.3", "--record", "/dev/full"])
    assert terminal.status() == 69 << 8
    terminal.restored()
    assert terminal.written.index(b"\x1b[?1049l") < terminal.written.index(b"maru: cannot write /dev/full")


def looks(word):
    coloured = top((80, 24), word)
    plain = top((80, 24), word, NO_COLOR="1")
    for terminal, wanted in ((coloured, True), (plain, False)):
        colours = {cell.fg for line in terminal.screen.buffer.values() for cell in line.values()} - {"default"}
        assert bool(colours) == wanted, colours
        os.write(terminal.master, b"q")
        assert terminal.status() == 0
    dumb = Terminal((80, 24), ["maru", "top", "--once"], TERM="dumb")
    assert dumb.status() == 0 and b"\x1b" not in dumb.written and word.encode() in dumb.written, dumb.written


def main(word):
    at_each_size(word)
    terminal = keys(word)
    resizing(terminal)
    suspended(terminal)
    stopped(terminal)
    os.write(terminal.master, b"q")
    assert terminal.status() == 0
    terminal.restored()
    endings(word)
    failing()
    looks(word)


# ---- pictures -----------------------------------------------------------

DARK = {"default": "#d4d4d4", "ground": "#1e1e1e"}
LIGHT = {"default": "#1f1f1f", "ground": "#ffffff"}
SHADES = {"red": "#cd3131", "green": "#0d9b4a", "brown": "#b58900", "blue": "#2472c8", "magenta": "#bc3fbc", "cyan": "#11a8cd", "black": "#000000", "white": "#e5e5e5", "brightblack": "#808080"}


def drawn(screen, file, theme):
    """The screen's cells as a picture."""
    from PIL import Image, ImageDraw, ImageFont

    face = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono%s.ttf"
    fonts = [ImageFont.truetype(face % kind, 13) for kind in ("", "-Bold")]
    width, height = 8, 17
    picture = Image.new("RGB", (screen.columns * width, screen.lines * height), theme["ground"])
    pen = ImageDraw.Draw(picture)
    def colour(name, otherwise):
        return theme[otherwise] if name == "default" else SHADES.get(name, "#" + name)

    for y in range(screen.lines):
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            ink, ground = colour(cell.fg, "default"), colour(cell.bg, "ground")
            if cell.reverse:
                ink, ground = ground, ink
            place = (x * width, y * height)
            pen.rectangle([place, (place[0] + width - 1, place[1] + height - 1)], fill=ground)
            pen.text((place[0], place[1] + 1), cell.data, fill=ink, font=fonts[bool(cell.bold)])
            if cell.underscore:
                pen.line([(place[0], place[1] + height - 2), (place[0] + width, place[1] + height - 2)], fill=ink)
    picture.save(file)


def pictures(word, folder):
    for size in SIZES + [(20, 5)]:
        for name, pressed in (("list", b""), ("help", b"?"), ("steer", b"4"), ("open", b"j\r")):
            terminal = top(size, word)
            os.write(terminal.master, pressed)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                terminal.read(0.1)
            for theme, how in ((DARK, "dark"), (LIGHT, "light")):
                drawn(terminal.screen, "%s/%dx%d-%s-%s.png" % (folder, *size, name, how), theme)
            os.kill(terminal.child, signal.SIGTERM)
            terminal.status()


if len(sys.argv) == 3:
    pictures(*sys.argv[1:])
else:
    main(sys.argv[1])
