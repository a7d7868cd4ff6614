"""Every fenced command of README.md and of the pages for users in docs/ is run as it is written, but
for ports, the number of steps and names that the reader replaces; or it is listed here with the reason
why it is not. A comment that begins with "refused" says that a command fails. A block with a file's
name after the fence is that file; a block tagged "text" is no command."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import jobs
import script
from ports import free_ports

script.need_file("/usr/share/datasets/fashion-mnist", "dataset-fashion-mnist")

# Directories of docs/ with pages for users; the others have no commands.
FOLDERS = ("start", "guides", "troubleshooting")
# Blocks that are not commands, by the beginning of their first line.
SCREENS = ("                         pserver (sync)",)

# Commands that are not run here -> the test that runs them, or the reason why none does.
ELSEWHERE = {
    r"\./deploy/(quickstart|test)\.sh$": "they build everything; the second runs this",
    r"cmake --install ": "install_test, quickstart_test",
    r"PYTHONPATH=build/python .*torch_client\.py ": "torch_client_test, with servers",
    r"build/bin/tandem bench knobs ": "minutes of measuring; knob_bench_test",
    r"build/bin/tandem-pserver ": "a server that stays; install_test, with a client",
    r"cpack |sudo apt-get install ": "packages_test",
    r"prometheus ": "monitoring_test",
    r"sudo (install|cp|systemctl) |openssl .*\| sudo |journalctl ": "no systemd; units_test",
    r"podman |kubectl (create|apply|logs) ": "no cluster; kubernetes_test",
    r"(sbatch|srun) ": "no Slurm; launchers_test",
    r"tandemrun --hosts=": "several hosts; launch_hosts_test, e2e_hosts_test",
    r"tensorboard ": "not in Debian; event_file_test reads the files",
}

# Placeholders in commands -> their values here.
OURS = {
    "CHECKPOINT_DIR": "deploy/examples/lenet-checkpoints",
    " JOB": " job.pbtxt",
    "--host=ps-0,ps-1,10.0.0.7": "--host=ps-0,ps-1,127.0.0.1",
    "--job=mine --role": "--job=click --role",
    "pki/mine": "pki/click",
    "ps-0:7000,ps-1:7000": "127.0.0.1:{0},127.0.0.1:{1}",
    "t-0:7000,t-1:7000": "127.0.0.1:{2},127.0.0.1:{3}",
    "127.0.0.1:29500": "127.0.0.1:{0}",
    "--status_port=8000": "--status_port={0}",
    "mpirun -np 4": "mpirun -np 4 --oversubscribe --allow-run-as-root",
}


def commands():
    """(page, command, whether it is refused) of each fenced command, in order; of a block that is a
    file (page, a command that writes it, False)."""
    found = []
    docs = os.path.join(script.SOURCE, "docs")
    pages = [os.path.join(script.SOURCE, "README.md"), *sorted(glob.glob(docs + "/*.md"))]
    for folder in FOLDERS:
        pages += sorted(glob.glob(os.path.join(docs, folder, "*.md")))
    for page in pages:
        with open(page, encoding="utf-8") as file:
            blocks = re.findall(r"^```(\S*)\n(.*?)^```", file.read(), re.M | re.S)
        name = os.path.relpath(page, script.SOURCE)
        for file, block in blocks:
            if file == "text":
                continue
            if file:
                found.append((name, f"cat > {file} <<'END'\n{block}END", False))
                continue
            if block.startswith(SCREENS):
                continue
            for line in block.replace("\\\n", " ").splitlines():
                command, comment = (re.split(r"\s+# ", line, 1) + [""])[:2]
                if command.strip():
                    found.append((name, command.strip(), comment.startswith("refused")))
    return found


def shorter(command):
    """A training job in a few steps."""
    if "tandemrun" in command:
        return command + (" " if " -- " in command else " -- ") + "--steps_max=20"
    return command + " --steps_max=20" if "tandem-trainer --job_file" in command else command


class Docs(unittest.TestCase):
    def new_folder(self):
        """What a reader has: a build, the examples, a job and a secret of one's own."""
        folder = tempfile.mkdtemp(prefix="tandem-docs-")
        self.addCleanup(shutil.rmtree, folder)
        os.mkdir(os.path.join(folder, "build"))
        os.symlink(script.BIN, os.path.join(folder, "build", "bin"))
        shutil.copytree(os.path.join(script.SOURCE, "deploy"), os.path.join(folder, "deploy"))
        jobs.write_click(folder)
        with open(os.open(os.path.join(folder, "secret"), os.O_CREAT | os.O_WRONLY, 0o600),
                  "w", encoding="utf-8") as file:
            file.write("a secret of some hosts\n")
        return folder

    def run_one(self, folder, command):
        """Exit code and output of a command as it is here."""
        ports = free_ports(4)
        for name, ours in OURS.items():
            command = command.replace(name, ours.format(*range(ports, ports + 4)))
        environment = dict(os.environ, PATH=script.BIN + ":" +
                           os.environ["PATH"], NO_COLOR="1")
        done = subprocess.run(["bash", "-c", shorter(command)], cwd=folder, text=True,
                              capture_output=True, timeout=300, check=False, env=environment)
        return done.returncode, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def test_every_command(self):
        count, folders = 0, {}
        for page, command, refused in commands():
            if any(re.match(pattern, command) for pattern in ELSEWHERE):
                continue
            if "mpirun" in command and shutil.which("mpirun") is None:
                continue
            if page not in folders:
                folders[page] = self.new_folder()
            code, said = self.run_one(folders[page], command)
            self.assertEqual(code != 0, refused, f"{page}: {said}")
            count += 1
        self.assertGreater(count, 20)

    def test_the_table_is_no_longer_than_needed(self):
        all_commands = [command for _, command, _ in commands()]
        for pattern in ELSEWHERE:
            self.assertTrue(any(re.match(pattern, c) for c in all_commands), pattern)
        text = "\n".join(all_commands)
        for name in OURS:
            self.assertIn(name, text)


if __name__ == "__main__":
    script.main()
