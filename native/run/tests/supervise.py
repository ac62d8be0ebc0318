"""Tests of maru-supervise: python3 supervise.py SUPERVISOR BOARD-PROBE [unittest arguments].

Every wait is bounded; every process started here is ended here."""

import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SUPERVISOR, PROBE = (os.path.abspath(path) for path in sys.argv[1:3])
BOUND = 20


def run(*command, options=(), **keywords):
    keywords.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [SUPERVISOR, *options, "--", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=BOUND, text=True, **keywords)


def sh(script, **keywords):
    return run("sh", "-c", script, **keywords)


def eventually(condition, what):
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (BOUND, what))


def stat_field(pid, field):
    """Field of /proc/PID/stat (3 = state, 4 = parent), or None when PID is gone."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[field - 3]
    except (FileNotFoundError, ProcessLookupError):
        return None


def name_of(pid):
    with open("/proc/%d/comm" % pid) as name:
        return name.read().strip()


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
        return [int(p) for p in children.read().split()]


def child_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
            pids = children.read().split()
    except FileNotFoundError:
        return None
    return int(pids[0]) if pids else None


def has_heard(pid):
    """It waits for signals, and none is left that came."""
    with open("/proc/%d/status" % pid) as status:
        pending = re.findall(r"^(?:Sig|Shd)Pnd:\s+(\w+)", status.read(), re.MULTILINE)
    return not any(int(p, 16) for p in pending) and stat_field(pid, 3) == "S"


def heard(*command, **keywords):
    """Of a command that says "sent", and is given a line once its signals were heard: its status,
    and what it says after that."""
    with subprocess.Popen([SUPERVISOR, "--", *command], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, **keywords) as process:
        said = process.stdout.readline()
        eventually(lambda: process.poll() is not None or has_heard(process.pid), "heard")
        rest = process.communicate("\n", timeout=BOUND)[0]
    return process.returncode, said.replace("sent\n", "") + rest


class Status(unittest.TestCase):
    def test_the_commands_own(self):
        for code in (0, 1, 7, 125, 255):
            self.assertEqual(sh("exit %d" % code).returncode, code)

    def test_killed_by_a_signal(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(sh("kill -%d $$" % number).returncode, 128 + number)

    def test_interrupted_as_the_command_was(self):
        for number in (signal.SIGINT, signal.SIGQUIT):
            self.assertEqual(sh("kill -%d $$" % number).returncode, -number)
            self.assertEqual(sh("exit %d" % (128 + number)).returncode, 128 + number)

    def test_not_found(self):
        for name in ("no-such-command-here", "/no/such/path", ""):
            result = run(name)
            self.assertEqual(result.returncode, 127, name)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn("'%s'" % name, result.stderr)

    def test_an_interpreter_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            script, program = os.path.join(folder, "script"), os.path.join(folder, "program")
            for line, named in (("#!/no/such\r", "/no/such?"), ("#! /no/such -x", "/no/such")):
                with open(script, "w", newline="") as file:
                    file.write(line + "\n")
                os.chmod(script, 0o755)
                said = "maru: cannot execute '%%s': its interpreter '%s': No such file or directory\n" % named
                self.assertEqual((run(script).returncode, run(script).stderr), (127, said % script))
                found = run("script", env={"PATH": "/no/such:" + folder})
                self.assertEqual((found.returncode, found.stderr), (127, said % "script"))
            with open(PROBE, "rb") as file:
                head, loader, tail = file.read().partition(b"/ld-linux")
            self.assertNotEqual(loader, b"")
            with open(program, "wb") as file:
                file.write(head + b"/no-linux" + tail)
            os.chmod(program, 0o755)
            result = run(program)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (127, 1))
            self.assertRegex(result.stderr, "its interpreter '/[^']*/no-linux[^']*': No such file")

    def test_cannot_execute(self):
        with tempfile.NamedTemporaryFile() as plain:
            self.assertEqual(run(plain.name).returncode, 126)
        self.assertEqual(run("/").returncode, 126)

    def test_no_descriptor_is_maru_failed(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
        result = run("true", preexec_fn=few)
        self.assertEqual(result.returncode, 125)
        self.assertIn("maru: cannot start 'true': Too many open files\n", result.stderr)

    def test_usage_is_maru_failed(self):
        for arguments in ([], ["--"], ["true"], ["--bogus", "1", "--", "true"],
                          ["--setenv", "novalue", "--", "true"], ["--preload", "a:b", "--", "true"],
                          ["--verdict", "maybe", "--", "true"],
                          ["--report-fd", "99", "--", "true"], ["--report-fd", "x", "--", "true"],
                          ["--memory", "bind:0", "--", "true"], ["--memory", "prefer:", "--", "true"],
                          ["--memory", "interleave:0-2000", "--", "true"]):
            result = subprocess.run([SUPERVISOR, *arguments], capture_output=True, timeout=BOUND)
            self.assertEqual(result.returncode, 125, arguments)
            self.assertTrue(result.stderr.startswith(b"maru-supervise: "), arguments)

    def test_parent_that_ignores_sigchld(self):
        ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.assertEqual(sh("exit 9", preexec_fn=ignore).returncode, 9)



def without_libc_signals(status):
    """Signals 32 and 33 are libc's own: who starts a process, and how, decides about them."""
    return re.sub(r"(Sig\w+:\s+)([0-9a-f]+)",
                  lambda m: m[1] + "%016x" % (int(m[2], 16) & ~(3 << 31)), status)


class Transparency(unittest.TestCase):
    def test_input_output_and_arguments(self):
        result = subprocess.run([SUPERVISOR, "--", "cat"], input=b"a\0b\nend", capture_output=True,
                                timeout=BOUND)
        self.assertEqual(result.stdout, b"a\0b\nend")
        self.assertEqual(run("printf", "%s|", "a b", "", "--", "-x").stdout, "a b||--|-x|")

    def test_the_command_finds_what_maru_found(self):
        """Descriptors, signal mask and dispositions are those of a plain start."""
        probe = "ls /proc/self/fd; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"
        plain = subprocess.run(["sh", "-c", probe], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=BOUND)
        self.assertEqual(without_libc_signals(sh(probe).stdout),
                         without_libc_signals(plain.stdout))

    @unittest.skipUnless(os.path.exists("/proc/self/numa_maps"), "the kernel knows no memory policies")
    def test_memory_policy_is_inherited_by_all_that_the_command_starts(self):
        for asked in ("prefer:0", "interleave:0"):
            told = sh("sh -c 'grep stack /proc/self/numa_maps'", options=("--memory", asked))
            self.assertIn(" %s stack" % asked, told.stdout)
            self.assertEqual((told.returncode, told.stderr), (0, ""))

    def test_memory_that_is_not_there_is_said_and_the_command_runs(self):
        told = sh("exit 7", options=("--memory", "prefer:900"))
        self.assertEqual(told.returncode, 7)
        self.assertRegex(told.stderr, "^maru: the memory policy cannot be set: .*; the command runs without it\n$")

    def test_closed_standard_descriptors_stay_closed(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with tempfile.NamedTemporaryFile("r") as seen:
                # The probe must not open files at the descriptors it looks for.
                inner = ("import os, sys; s = [n for n in (0, 1, 2)"
                         " if os.path.exists('/proc/self/fd/' + str(n))]; "
                         "open(%r, 'w').write(repr(s))" % seen.name)
                command = 'exec "$0" -- "$1" -c "$2" ' + closed
                done = subprocess.run(["sh", "-c", command, SUPERVISOR, sys.executable, inner],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, timeout=BOUND)
                self.assertEqual(done.returncode, 0, closed)
                still = [n for n, mark in enumerate(("<&-", " >&-", "2>&-"))
                         if mark not in " " + closed]
                self.assertEqual(seen.read(), repr(still), closed)

    def test_environment_and_preload(self):
        options = ("--setenv", "A=1=2", "--setenv", "B=", "--preload", "/x/one.so",
                   "--preload", "/x/two.so")
        result = run(sys.executable, "-c",
                     "import os; print([os.environ[n] for n in ('A', 'B', 'LD_PRELOAD')])",
                     options=options, env={**os.environ, "LD_PRELOAD": "/x/old.so"})
        self.assertEqual(result.stdout.strip(), "['1=2', '', '/x/two.so:/x/one.so:/x/old.so']")


class Orphans(unittest.TestCase):
    def test_are_reaped(self):
        """The orphan's parent becomes the supervisor, and no zombie stays while
        the command still runs."""
        script = "(sh -c 'echo $$; exec sleep 0.2' & ) ; exec sleep 5"
        process = subprocess.Popen([SUPERVISOR, "--", "sh", "-c", script], stdout=subprocess.PIPE)
        try:
            orphan = int(process.stdout.readline())
            eventually(lambda: stat_field(orphan, 4) in (str(process.pid), None), "adopted")
            eventually(lambda: stat_field(orphan, 3) is None, "reaped")
            self.assertIsNone(process.poll())
        finally:
            process.terminate()
            self.assertEqual(process.wait(BOUND), 128 + signal.SIGTERM)
            process.stdout.close()

    def test_daemons_are_left_alone(self):
        begun = time.monotonic()
        result = sh("sleep 60 >/dev/null 2>&1 & echo $!")
        daemon = int(result.stdout)
        try:
            self.assertLess(time.monotonic() - begun, 30)
            self.assertIn(stat_field(daemon, 3), ("S", "R", "D"))
        finally:
            os.kill(daemon, signal.SIGKILL)


class Signals(unittest.TestCase):
    FORWARDED = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH")

    def test_are_forwarded(self):
        for name in self.FORWARDED:
            # Not pause(): a signal on the way into it would not end it.
            script = ("import signal, sys, time\n"
                      "signal.signal(signal.SIG%s, lambda *_: sys.exit(42))\n"
                      "print('ready', flush=True)\n"
                      "while True: time.sleep(0.1)\n" % name)
            process = subprocess.Popen([SUPERVISOR, "--", sys.executable, "-c", script],
                                       stdout=subprocess.PIPE)
            process.stdout.readline()
            process.send_signal(getattr(signal, "SIG" + name))
            self.assertEqual(process.wait(BOUND), 42, name)
            process.stdout.close()

    def test_all_that_end_a_process_are_forwarded(self):
        """A supervisor that such a signal ends leaves the command alone, and loses its status."""
        numbers = [signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
                   signal.SIGABRT, signal.SIGXCPU, signal.SIGRTMIN, signal.SIGRTMAX]
        for number in numbers:
            process = subprocess.Popen([SUPERVISOR, "--", "sleep", "60"])
            command = eventually(lambda: child_of(process.pid), "command")
            eventually(lambda: name_of(command) == "sleep", "exec")
            process.send_signal(number)
            self.assertEqual(process.wait(BOUND), 128 + number)
            eventually(lambda: stat_field(command, 3) is None, "command gone")

    def test_a_value_that_is_sent_along_arrives(self):
        sends = ("import ctypes, sys; libc = ctypes.CDLL(None); "
                 "libc.sigqueue(int(sys.argv[1]), 35, ctypes.c_void_p(4711))")
        takes = ("import ctypes, signal; libc = ctypes.CDLL(None); "
                 "signal.pthread_sigmask(signal.SIG_BLOCK, [35]); print('ready', flush=True); "
                 "info = (ctypes.c_char * 128)(); mask = (ctypes.c_ulong * 16)(1 << 34); "
                 "libc.sigtimedwait(mask, info, (ctypes.c_long * 2)(%d, 0)); "
                 "print(int.from_bytes(bytes(info)[24:28], 'little'))" % BOUND)
        process = subprocess.Popen([SUPERVISOR, "--", sys.executable, "-c", takes],
                                   stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        subprocess.run([sys.executable, "-c", sends, str(process.pid)], check=True, timeout=BOUND)
        self.assertEqual(process.communicate(timeout=2 * BOUND)[0], "4711\n")
        self.assertEqual(process.returncode, 0)

    def test_an_alarm_set_before_is_the_commands(self):
        """As `perl -e 'alarm 5; exec @ARGV'` does: the timer is kept by exec, and not by fork."""
        process = subprocess.Popen([SUPERVISOR, "--", "sleep", "60"],
                                   preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 3))
        command = eventually(lambda: child_of(process.pid), "command")
        self.assertEqual(process.wait(BOUND), 128 + signal.SIGALRM)
        eventually(lambda: stat_field(command, 3) is None, "command gone")

    def test_an_alarm_set_before_is_the_commands_alone(self):
        # What is blocked stays pending, where the group's other process would show it.
        script = ("import os, re, signal, subprocess; os.setpgrp(); "
                  "signal.pthread_sigmask(signal.SIG_BLOCK, [14]); "
                  "other = subprocess.Popen(['sleep', '60']); signal.sigwait([14]); "
                  "told = re.search(r'ShdPnd:\\s+(\\w+)', open('/proc/%d/status' % other.pid).read())[1]; "
                  "other.kill(); other.wait(); print(int(told, 16))")
        result = run(sys.executable, "-c", script,
                     preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 3))
        self.assertEqual((result.returncode, result.stdout), (0, "0\n"))

    def test_what_the_command_sends_its_parent_is_not_its_own(self):
        for name in ("USR1", "TERM", "ALRM", "XCPU", "RTMIN+3"):
            script = "kill -s %s $PPID; echo sent; read x; echo on" % name
            # In a session of its own the supervisor's parent hears nothing.
            self.assertEqual(heard("bash", "-c", script, start_new_session=True), (0, "on\n"), name)

    # The one that sends is there until it is given a line.
    BELOW = ('sh -c "kill -s USR1 $PPID; echo sent; read x"; echo on',
             "(kill -s USR1 $PPID; echo sent; read x); echo on",
             'exec "$0" -- sh -c "kill -s USR1 $PPID; echo sent; read x; echo on"')

    def test_what_a_process_below_the_command_sends_is_not_the_commands(self):
        for script in self.BELOW:
            told = heard("sh", "-c", script, SUPERVISOR, start_new_session=True)
            self.assertEqual(told, (0, "on\n"), script)

    def test_what_a_process_below_the_command_sends_reaches_our_parent(self):
        told = []
        self.addCleanup(signal.signal, signal.SIGUSR1,
                        signal.signal(signal.SIGUSR1, lambda *_: told.append(1)))
        for count, script in enumerate(self.BELOW, 1):
            self.assertEqual(heard("sh", "-c", script, SUPERVISOR), (0, "on\n"), script)
            eventually(lambda: len(told) == count, "told: " + script)

    NAMESPACE = ("unshare", "-Urpf", "--mount-proc")

    def test_what_the_command_sends_reaches_a_first_process(self):
        try:
            subprocess.run([*self.NAMESPACE, "true"], check=True, capture_output=True, timeout=BOUND)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no namespaces here")
        script = "trap 'echo told' USR1; %s -- sh -c 'kill -s USR1 $PPID'; exit 3" % SUPERVISOR
        result = subprocess.run([*self.NAMESPACE, "bash", "-c", script], stdout=subprocess.PIPE,
                                timeout=BOUND, text=True)
        self.assertEqual((result.returncode, result.stdout), (3, "told\n"))

    def test_what_the_command_sends_its_parent_reaches_ours(self):
        script = "trap 'echo told' USR1; %s -- sh -c 'kill -s USR1 $PPID; echo on'; exit 3"
        result = subprocess.run(["bash", "-c", script % SUPERVISOR], stdout=subprocess.PIPE,
                                timeout=BOUND, text=True)
        self.assertEqual((result.returncode, result.stdout), (3, "on\ntold\n"))

    def test_what_an_orphan_sends_its_parent_is_nobodys(self):
        """Without a supervisor that is the first process of the machine, which ignores it. Most
        orphans here have ended by the time that the signal is read."""
        orphan = ("import os, signal, sys\n"
                  "first = os.getpid()\n"
                  "if os.fork() == 0:\n"
                  "    while os.getppid() == first: pass\n"
                  "    os.kill(os.getppid(), int(sys.argv[1]))\n"
                  "    os._exit(0)\n")
        for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGRTMIN + 1):
            # What it says is read to its end, and that is the orphan's end.
            script = ': $("$0" -c "$1" "$2"); echo sent; read x; echo on'
            told = heard("sh", "-c", script, sys.executable, orphan, str(int(number)))
            self.assertEqual(told, (0, "on\n"), number)

    def test_an_orphan_that_sends_without_end_does_not_keep_the_run(self):
        sends = ("import os\n"
                 "for sent in range(10 ** 9):\n"
                 "    os.kill(%d, 28)\n"
                 "    if sent == 1000: print(flush=True)\n")
        script = ("import os, subprocess, sys\n"
                  "subprocess.Popen([sys.executable, '-c', sys.argv[1] % os.getppid()], stdout=subprocess.PIPE,\n"
                  "                 stderr=subprocess.DEVNULL).stdout.readline()\n"
                  "os._exit(3)\n")
        self.assertEqual(run(sys.executable, "-c", script, sends, start_new_session=True).returncode, 3)

    def test_no_more_than_some_signals_are_heard_before_the_command_is_reaped(self):
        """How many of a row that it sends reach us, where the supervisor wakes at its end."""
        row, number = 2000, signal.SIGRTMIN
        script = ("import os, sys; boss = os.getppid(); os.kill(boss, 19)\n"
                  "while open('/proc/%%d/stat' %% boss).read().rpartition(')')[2].split()[0] != 'T': pass\n"
                  "for _ in range(%d): os.kill(boss, %d)\n"
                  "os._exit(3)\n" % (row, number))
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        self.addCleanup(signal.pthread_sigmask, signal.SIG_UNBLOCK, [number])
        process = subprocess.Popen([SUPERVISOR, "--", sys.executable, "-c", script])
        try:
            command = eventually(lambda: child_of(process.pid), "command")
            eventually(lambda: stat_field(command, 3) == "Z", "command ended")
        finally:
            process.send_signal(signal.SIGCONT)
            status = process.wait(BOUND)
        came = 0
        while signal.sigtimedwait([number], 0) is not None:
            came += 1
        self.assertEqual(status, 3)
        self.assertTrue(0 < came < row, came)

    def test_killed_supervisor_leaves_the_command(self):
        process = subprocess.Popen([SUPERVISOR, "--", "sleep", "60"])
        command = eventually(lambda: child_of(process.pid), "command")
        eventually(lambda: name_of(command) == "sleep", "exec")
        process.kill()
        process.wait(BOUND)
        try:
            self.assertIn(stat_field(command, 3), ("S", "R", "D"))
        finally:
            os.kill(command, signal.SIGKILL)

    def test_killed_group_leaves_nothing(self):
        process = subprocess.Popen([SUPERVISOR, "--", "sleep", "60"], start_new_session=True)
        command = eventually(lambda: child_of(process.pid), "command")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(BOUND)
        eventually(lambda: stat_field(command, 3) in (None, "Z"), "command gone")

    def test_stopping_the_supervisor_stops_both_and_continue_continues(self):
        # A group of its own, with its parent in the same session: the kernel
        # ignores SIGTSTP in groups that nobody could continue.
        process = subprocess.Popen([SUPERVISOR, "--", "sleep", "60"], preexec_fn=os.setpgrp)
        try:
            command = eventually(lambda: child_of(process.pid), "command")
            eventually(lambda: name_of(command) == "sleep", "exec")
            process.send_signal(signal.SIGTSTP)
            eventually(lambda: stat_field(command, 3) == "T", "command stopped")
            eventually(lambda: stat_field(process.pid, 3) == "T", "supervisor stopped")
            process.send_signal(signal.SIGCONT)
            eventually(lambda: stat_field(command, 3) == "S", "command continued")
            eventually(lambda: stat_field(process.pid, 3) == "S", "supervisor continued")
        finally:
            process.terminate()
            self.assertEqual(process.wait(BOUND), 128 + signal.SIGTERM)

    def test_stopping_the_command_alone_leaves_the_supervisor_awake(self):
        process = subprocess.Popen([SUPERVISOR, "--", "sleep", "60"])
        command = eventually(lambda: child_of(process.pid), "command")
        os.kill(command, signal.SIGSTOP)
        eventually(lambda: stat_field(command, 3) == "T", "stopped")
        os.kill(command, signal.SIGCONT)
        os.kill(command, signal.SIGKILL)
        self.assertEqual(process.wait(BOUND), 128 + signal.SIGKILL)


class Session:
    """A job-control shell on a pseudo-terminal."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # The leak checker stops its process to look at it and hangs if the
            # loss of the terminal continues it; the other tests check for leaks.
            os.environ.update(PS1="$ ", S=SUPERVISOR, LSAN_OPTIONS="detect_leaks=0",
                              ASAN_OPTIONS="detect_leaks=0")
            os.environ.pop("ENV", None)
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        end = time.monotonic() + BOUND
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError("%r not seen in %r" % (text, self.seen))
            self.seen += os.read(self.fd, 4096).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Terminal(unittest.TestCase):
    def setUp(self):
        self.session = Session()
        self.addCleanup(self.session.close)

    def test_reads_the_terminal(self):
        self.session.type("$S -- sh -c 'read x; echo got=[$x]'; echo st=$?\n")
        time.sleep(0.3)
        self.session.type("hello\n")
        self.session.expect("got=[hello]")
        self.session.expect("st=0")

    def test_interrupt_reaches_the_command_once(self):
        script = ("import signal,time\nn=[]\nsignal.signal(2, lambda *_: n.append(1))\n"
                  "print('rea'+'dy',flush=True)\nend=time.time()+30\n"
                  "while not n and time.time()<end: time.sleep(.05)\n"
                  "time.sleep(.5)\nprint('count=%d.'%len(n))\n")
        with tempfile.NamedTemporaryFile("w") as program:
            program.write(script)
            program.flush()
            self.session.type("$S -- python3 %s; echo st=$?\n" % program.name)
            self.session.expect("ready")
            self.session.type("\x03")
            self.session.expect("count=1.")
            self.session.expect("st=0")

    def test_interrupt_ends_a_plain_command(self):
        # Not a shell: dash loses an interrupt that meets its vfork.
        script = "import signal; signal.signal(2, signal.SIG_DFL); print('rea' 'dy', flush=True); signal.pause()"
        self.session.type('$S -- python3 -c "%s"\n' % script)
        self.session.expect("ready\r\n")
        self.session.type("\x03")
        time.sleep(0.2)
        self.session.type("echo st=$?\n")
        self.session.expect("st=130")

    def test_interrupt_ends_a_loop_around_it(self):
        script = "import signal; signal.signal(2, signal.SIG_DFL); print('rea' 'dy', flush=True); signal.pause()"
        self.session.type("bash -c 'while :; do $S -- python3 -c \"$1\"; done' loop \"%s\"\n" % script)
        self.session.expect("ready\r\n")
        self.session.type("\x03")
        time.sleep(0.2)
        self.session.type("echo st=$?\n")
        self.session.expect("st=130")

    def test_stop_and_foreground(self):
        self.session.type("$S -- sh -c 'echo rea''dy; read x; echo got=[$x]'\n")
        self.session.expect("ready\r\n")
        self.session.type("\x1a")
        self.session.expect("Stopped")
        self.session.type("fg\n")
        time.sleep(0.3)
        self.session.type("again\n")
        self.session.expect("got=[again]")

    def test_a_program_that_stops_itself_once_it_is_asked(self):
        # As full-screen programs do, which give the terminal back first.
        # (Python runs a handler between its own steps: so it sleeps a little again and again until then.)
        script = ("import os, signal, time; asked = []; "
                  "signal.signal(signal.SIGTSTP, lambda *_: (asked.append(1), os.kill(os.getpid(), signal.SIGSTOP))); "
                  "print('rea' 'dy', flush=True); [time.sleep(.02) for _ in iter(lambda: asked != [], True)]; "
                  "print('got=[%s]' % input())")
        self.session.type('$S -- python3 -c "%s"\n' % script)
        self.session.expect("ready\r\n")
        self.session.type("\x1a")
        self.session.expect("Stopped")
        self.session.type("fg\n")
        time.sleep(0.3)
        self.session.type("again\n")
        self.session.expect("got=[again]")

    def test_the_keyboard_reaches_all_of_a_group_of_its_own(self):
        # system(3) ignores the interrupt; what it waits for does not.
        script = "import os; os.setpgid(0, 0); os.system('echo rea''dy; exec sleep 60'); print('ov' 'er')"
        self.session.type('$S -- python3 -c "%s"\n' % script)
        self.session.expect("ready\r\n")
        self.session.type("\x03")
        self.session.expect("over")

    def test_shell_in_a_group_of_its_own_gives_the_terminal_back(self):
        self.session.type("$S -- bash --norc --noprofile -i\n")
        time.sleep(0.5)
        self.session.type("PS1='in''ner '\n")
        self.session.expect("inner ")
        self.session.type("kill -9 $$\n")
        time.sleep(0.5)
        self.session.type("echo st=$?; read y; echo y=[$y]\n")
        self.session.expect("st=137")
        self.session.type("typed\n")
        self.session.expect("y=[typed]")

    def test_a_group_of_its_own_is_lent_the_terminal(self):
        script = "import os; os.setpgid(0, 0); print('got=[%s]' % input())"
        self.session.type('$S -- python3 -c "%s"; echo st=$?\n' % script)
        time.sleep(0.5)
        self.session.type("lent\n")
        self.session.expect("got=[lent]")
        self.session.expect("st=0")

    def test_pipeline_shares_the_terminal(self):
        self.session.type("$S -- sh -c 'sleep 0.5; echo a' | "
                          "sh -c 'read x </dev/tty; cat; echo got=[$x]'\n")
        time.sleep(0.2)
        self.session.type("keys\n")
        self.session.expect("got=[keys]")


class Board(unittest.TestCase):
    def fields(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return dict(line.split("=", 1) for line in result.stdout.splitlines())

    def test_is_there_for_the_command(self):
        seen = self.fields(run(PROBE))
        self.assertEqual(seen["me"], seen["pid"])
        self.assertEqual(seen["state"], "1")
        self.assertNotEqual(seen["owner"], seen["me"])
        self.assertGreater(int(seen["start_time"]), 0)
        self.assertEqual(seen["command"], PROBE)

    def test_can_be_opened_from_outside_while_the_command_runs(self):
        process = subprocess.Popen([SUPERVISOR, "--", "sh", "-c", "echo $MARU_BOARD; exec sleep 60"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            path = process.stdout.readline().strip()
            self.assertTrue(path.startswith("/proc/%d/fd/" % process.pid), path)
            seen = self.fields(subprocess.run([PROBE], env={"MARU_BOARD": path}, text=True,
                                              capture_output=True, timeout=BOUND))
            self.assertEqual(int(seen["owner"]), process.pid)
            self.assertEqual(seen["command"], "sh")
        finally:
            process.terminate()
            process.wait(BOUND)
            process.stdout.close()

    def test_long_command_lines_are_cut(self):
        seen = self.fields(run(PROBE, "x" * 100000))
        self.assertEqual(seen["command"], PROBE)

    def test_without_a_board_the_command_runs(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        result = sh("echo board=$MARU_BOARD; grep SigIgn /proc/self/status", preexec_fn=limit,
                    env={"MARU_BOARD": "outer", "PATH": os.environ["PATH"]})
        plain = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True)
        self.assertEqual((result.returncode, without_libc_signals(result.stdout)),
                         (0, "board=\n" + without_libc_signals(plain.stdout)))
        self.assertRegex(result.stderr, r"no board for this run \(File too large\).*; raise ulimit -f\n")
        said = run("true", preexec_fn=limit, options=("--reporter", "/bin/false")).stderr
        self.assertRegex(said, "not counted or recorded.*\n.*; what rooms did was not counted\n$")

    def test_nested_runs_have_boards_of_their_own(self):
        self.fields(run(SUPERVISOR, "--", PROBE))


class Report(unittest.TestCase):
    def report(self, *command):
        with tempfile.TemporaryFile("w+") as file:
            status = run(*command, options=("--report-fd", str(file.fileno())),
                         pass_fds=(file.fileno(),)).returncode
            file.seek(0)
            return status, json.load(file)

    def test_holds_what_was_measured(self):
        status, report = self.report(sys.executable, "-c", "x = bytearray(50 << 20); sum(range(10**6))")
        self.assertEqual((status, report["status"], report["schema"]), (0, 0, "maru-supervise/1"))
        self.assertGreater(report["wall_s"], 0.0)
        # The kernel shares out a short time by the ticks that it saw: all may be the system's.
        self.assertGreater(report["user_s"] + report["sys_s"], 0.0)
        self.assertGreater(report["max_rss_kib"], 50 << 10)
        self.assertTrue(report["started"] and report["board"])
        self.assertRegex(report["words"], r"^[0-9.]+ m?s wall; [0-9.]+ (ms|µs|s) user \+ [0-9.]+ (ms|µs|s) system; "
                                          r"[0-9]+ MiB in the largest process$")

    def test_is_written_for_a_command_that_never_started(self):
        status, report = self.report("no-such-command-here")
        self.assertEqual((status, report["status"], report["started"]), (127, 127, False))

    def test_reporter_takes_over(self):
        with tempfile.TemporaryDirectory() as folder:
            reporter = os.path.join(folder, "reporter")
            with open(reporter, "w") as script:
                script.write('#!/bin/sh\necho "$@"; test -r "$4" && echo board; exit 33\n')
            os.chmod(reporter, 0o755)
            with tempfile.TemporaryFile("w+") as file:
                fd = file.fileno()
                result = run("sh", "-c", "exit 5", pass_fds=(fd,),
                             options=("--report-fd", str(fd), "--reporter", reporter))
                self.assertEqual(result.returncode, 33)
                self.assertTrue(result.stdout.startswith("report-run %d 5 /proc/" % fd))
                self.assertTrue(result.stdout.endswith("board\n"))

    def reported_by(self, script, **keywords):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as file:
            reporter = os.path.join(folder, "reporter")
            with open(reporter, "w") as program:
                program.write(script)
            os.chmod(reporter, 0o755)
            options = ("--report-fd", str(file.fileno()), "--reporter", reporter)
            return run("true", pass_fds=(file.fileno(),), options=options, **keywords)

    def test_reporter_is_ended_by_what_ends_a_program_alone(self):
        """What an orphan sends its parent comes to the reporter."""
        for name in ("USR1", "ALRM", "XCPU", "RTMIN"):
            self.assertEqual(self.reported_by("#!/bin/bash\nkill -s %s $$; exit 33\n" % name).returncode,
                             33, name)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            self.assertEqual(self.reported_by("#!/bin/sh\nkill -%d $$; exit 33\n" % number).returncode,
                             -number)

    def test_reporter_has_no_timer_that_was_set_before(self):
        timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
        left = self.reported_by("#!%s\nimport signal\nprint([signal.getitimer(t)[0] for t in %r])\n"
                                % (sys.executable, [int(t) for t in timers]),
                                preexec_fn=lambda: [signal.setitimer(t, 1000) for t in timers])
        self.assertEqual(left.stdout, "[0.0, 0.0, 0.0]\n")

    def test_reporter_is_told_of_what_the_command_died(self):
        for end, status in (("kill -2 $$", "-2"), ("exit 130", "130"), ("kill -9 $$", "137")):
            with tempfile.TemporaryFile("w+") as file:
                options = ("--report-fd", str(file.fileno()), "--reporter", "/bin/echo")
                result = run("sh", "-c", end, pass_fds=(file.fileno(),), options=options)
                self.assertEqual(result.stdout.split()[:3], ["report-run", str(file.fileno()), status])

    def unplanned(self, *command, verdict=None):
        with tempfile.TemporaryDirectory() as folder:
            reporter = os.path.join(folder, "reporter")
            with open(reporter, "w") as script:
                script.write('#!/bin/sh\ncat /proc/self/fd/$2; exit 33\n')
            os.chmod(reporter, 0o755)
            asked = ("--verdict", verdict) if verdict else ()
            return run(*command, options=("--reporter", reporter, *asked))

    def test_says_by_itself_what_was_not_planned(self):
        result = self.unplanned("sh", "-c", "exit 5")
        self.assertEqual((result.returncode, result.stdout), (5, ""))
        self.assertRegex(result.stderr, "^maru: .* wall; .*; no room was active\n$")
        quiet = self.unplanned("sh", "-c", "exit 5", verdict="no")
        self.assertEqual((quiet.returncode, quiet.stderr), (5, ""))

    def test_says_nothing_of_what_never_started(self):
        result = self.unplanned("no-such-command-here")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (127, 1))

    def test_says_it_to_nobody(self):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as nobody:
            status = subprocess.run([SUPERVISOR, "--reporter", "/no/reporter", "--", "sh", "-c", "exit 5"],
                                    stderr=nobody, timeout=BOUND).returncode
        self.assertEqual(status, 5)

    def test_reporter_takes_over_where_a_room_was_active(self):
        for way, verdict in (("section", "yes"), ("line", "no")):
            result = self.unplanned(PROBE, way, verdict=verdict)
            lines = [json.loads(l) for l in result.stdout.splitlines() if l.startswith("{")]
            self.assertEqual((result.returncode, result.stderr), (33, ""), way)
            self.assertEqual((lines[0], lines[1]["status"]), ({"quiet": verdict == "no"}, 0), way)

    def test_missing_reporter_keeps_the_status(self):
        with tempfile.TemporaryFile("w+") as file:
            fd = file.fileno()
            result = run("sh", "-c", "exit 5", pass_fds=(fd,),
                         options=("--report-fd", str(fd), "--reporter", "/no/reporter"))
            self.assertEqual(result.returncode, 5)
            self.assertIn("/no/reporter", result.stderr)


class Beside(unittest.TestCase):
    WORDS = ("/bin/sh", "-c", 'echo begun >&2; cat; echo "{}"; echo ended >&2')

    def options(self, *more):
        return [o for word in self.WORDS for o in ("--beside", word)] + list(more)

    def test_ends_with_the_command_and_reports_before_it(self):
        with tempfile.TemporaryFile("w+") as file:
            fd = file.fileno()
            result = run("sh", "-c", "sleep 2 >/dev/null 2>&1 & exit 5", pass_fds=(fd,),
                         options=self.options("--report-fd", str(fd)))
            self.assertEqual((result.returncode, result.stderr.split()), (5, ["begun", "ended"]))
            file.seek(0)
            lines = file.read().splitlines()
            self.assertEqual(lines[0], "{}")
            self.assertEqual(json.loads(lines[1])["orphans_reaped"], 0)

    def test_ends_when_the_supervisor_is_killed(self):
        with subprocess.Popen([SUPERVISOR, *self.options(), "--", "sleep", "30"],
                              stderr=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stderr.readline(), "begun\n")
            command = eventually(lambda: [p for p in children_of(process.pid) if name_of(p) == "sleep"], "the command")
            process.kill()
            self.assertEqual(process.stderr.readline(), "ended\n")
            os.kill(command[0], signal.SIGKILL)

    def test_that_is_cut_off_in_a_line_leaves_the_figures_whole(self):
        with tempfile.TemporaryFile("w+") as file:
            words = ("/bin/sh", "-c", "cat; printf '{\"room\":'")
            options = [o for word in words for o in ("--beside", word)] + ["--report-fd", str(file.fileno())]
            result = run("true", pass_fds=(file.fileno(),), options=options)
            file.seek(0)
            torn, figures = file.read().splitlines()
            self.assertEqual((result.returncode, torn, json.loads(figures)["status"]), (0, '{"room":', 0))

    def test_has_not_the_environment_of_the_command(self):
        words = ("/bin/sh", "-c", 'echo "${OF_COMMAND-none} ${LD_PRELOAD-none}" >&2')
        found = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        result = run("sh", "-c", "echo $OF_COMMAND", env=found,
                     options=[o for word in words for o in ("--beside", word)]
                     + ["--setenv", "OF_COMMAND=1", "--preload", "/no/such.so"])
        self.assertEqual(result.stdout, "1\n")
        self.assertIn("none none", result.stderr.splitlines())

    def test_that_cannot_start_is_said(self):
        result = run("true", options=("--beside", "/no/such"))
        self.assertEqual(result.returncode, 0)
        self.assertIn("/no/such", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
