"""A program on a terminal, driven from a test: what it shows is waited for, keys are sent to it."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

# Generous: the machine may be busy, and the program a sanitizer's.
PATIENCE = 60


class Terminal:
    def __init__(self, argv, columns=80, env=None):
        self.shown = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, dict(os.environ, **(env or {})))
        self.resize(columns)

    def resize(self, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def send(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            self._take(0)
            data = data[os.write(self.fd, data[:512]):]

    def _take(self, seconds):
        """Reads what is there within so many seconds; False at the end."""
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                return False
            if not piece:
                return False
            self.shown += piece
            seconds = 0
        return True

    def expect(self, text):
        """Waits until `text` is shown, and forgets everything up to its end; what came before it."""
        wanted = text if isinstance(text, bytes) else text.encode()
        end = time.time() + PATIENCE
        while wanted not in self.shown:
            if time.time() > end or not self._take(0.2) and wanted not in self.shown:
                sys.exit("not shown: %r in %r" % (wanted, self.shown[-2000:]))
        before, self.shown = self.shown.split(wanted, 1)
        return before.decode(errors="replace")

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self):
        """The rest of what is shown, and how the program ended: an exit code, or minus a signal."""
        deadline = time.time() + PATIENCE
        while self._take(0.2):
            if time.time() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                sys.exit("it did not end: %r" % self.shown[-2000:])
        _, status = os.waitpid(self.pid, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return self.shown.decode(errors="replace"), code
