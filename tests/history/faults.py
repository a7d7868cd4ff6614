"""The faults of a run: a thread breaks servers, their disks and connections, and mends them."""

import random
import signal
import threading
import time

from history import Recorder
from proxy import IN, OUT

IO_ERROR_EXIT = 201  # the exit code after an I/O error of the log, which a supervisor answers


class Faults(threading.Thread):
    """`quiet`: lock that a restore holds. Only kills may happen while it is held."""

    def __init__(self, world, servers, quiet):
        super().__init__(name="faults", daemon=True)
        self.world, self.servers, self.quiet = world, servers, quiet
        self.rng = random.Random(f"{world.plan['seed']} faults")
        self.over = threading.Event()
        self.failure = None

    def run(self):
        kinds = self.world.plan["faults"]
        try:
            while kinds and not self.over.wait(self.rng.uniform(0.1, 1.2)):
                self.one(self.rng.choice(kinds), self.rng.choice(self.servers))
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error
            raise

    def one(self, kind, server):
        if kind in ("kill", "kill_unheard", "kill_at_ack", "restart"):
            self.make(kind, server)
        elif self.quiet.acquire(blocking=False):
            try:
                self.make(kind, server)
            finally:
                self.quiet.release()
        self.look()

    def make(self, kind, server):
        event = self.world.recorder.begin("faults", kind, server.index)
        found = getattr(self, kind)(server) or {}
        Recorder.end(event, "ok", **found)

    def look(self):
        """Records and restarts servers that ended by themselves."""
        for server in self.servers:
            if not server.alive():
                event = self.world.recorder.begin("faults", "died", server.index,
                                                  exit=server.process.returncode,
                                                  log=server.tail(1500))
                server.start()
                Recorder.end(event, "ok")

    def pause(self, least, most):
        self.over.wait(self.rng.uniform(least, most))

    # ---- The list --------------------------------------------------------------------------------

    def kill(self, server):
        server.kill()
        self.pause(0, 0.4)
        server.start()

    def kill_unheard(self, server):
        """Replies do not arrive, and then the server is killed: callers repeat what it applied."""
        server.proxy.hold(IN)
        self.pause(0.02, 0.3)
        server.kill()
        server.proxy.cut()
        server.proxy.heal()
        server.start()

    def kill_at_ack(self, server):
        """A client kills the server at the moment at which it receives an acknowledgement."""
        killed = threading.Event()

        def trap():
            server.signal(signal.SIGKILL)
            killed.set()

        self.world.traps[server.index] = trap
        killed.wait(1.0)
        self.world.traps.pop(server.index, None)
        server.kill()
        server.start()
        return {"at_ack": killed.is_set()}

    def restart(self, server):
        code = server.terminate()
        server.start()
        return {"exit": code}

    def stop(self, server):
        server.signal(signal.SIGSTOP)
        self.pause(0.05, 2.5)
        server.signal(signal.SIGCONT)

    def cut(self, server):
        server.proxy.cut()
        self.pause(0.02, 1.0)
        server.proxy.heal()

    def hold_out(self, server):
        """The server hears nothing, and its replies arrive."""
        server.proxy.hold(OUT)
        self.pause(0.02, 4.0)
        self.mend(server)

    def hold_in(self, server):
        """The server hears all, and its replies do not arrive."""
        server.proxy.hold(IN)
        self.pause(0.02, 4.0)
        self.mend(server)

    def mend(self, server):
        """Half of the held connections break, the others deliver late."""
        if self.rng.random() < 0.5:
            server.proxy.cut()
        server.proxy.heal()

    def delay(self, server):
        server.proxy.delay(self.rng.choice((0.001, 0.02, 0.2)))
        self.pause(0.2, 1.5)
        server.proxy.heal()

    def full(self, server):
        if not server.disk:
            return {"skipped": True}
        server.fill()
        self.pause(0.2, 1.0)
        killed = self.rng.random() < 0.3
        if killed:
            server.kill()
        server.free()
        ended = not server.alive() and not killed
        code = server.process.returncode if ended else None
        if killed or code == IO_ERROR_EXIT:
            server.start()
        return {"killed": killed, "exit": code}

    def end(self):
        """Ends the faults. All servers run afterwards."""
        self.over.set()
        self.join(60)
        for server in self.servers:
            server.signal(signal.SIGCONT)
            server.proxy.heal()
        self.look()
        time.sleep(0.05)
