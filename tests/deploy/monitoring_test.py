"""Dashboard and alert rules of deploy/monitoring on a real Prometheus, over a real job: every
expression of them gives numbers, and every alert fires on what it is for."""

import json
import math
import os
import re
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import jobs
import processes
import script
from ports import free_ports

script.need_programs("prometheus", "promtool", package="prometheus")

MONITORING = os.path.join(script.SOURCE, "deploy", "monitoring")
SECONDS_MAX = 180


def read(name):
    with open(os.path.join(MONITORING, name), encoding="utf-8") as file:
        return file.read()


def dashboard_expressions():
    """(panel, expression) of each curve, with Grafana's variables filled in."""
    found = []
    for panel in json.loads(read("dashboard.json"))["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$job", ".*").replace("$__rate_interval", "30s")
            assert "$" not in expression, expression
            found.append((panel["title"], expression))
    return found


class Server:
    """A Prometheus on a free port that scrapes `targets`."""

    def __init__(self, folder, targets):
        with open(os.path.join(folder, "rules.yml"), "w", encoding="utf-8") as file:
            file.write(read("rules.yml"))
        config = re.sub(r"targets: \[.*\]", f"targets: [{', '.join(targets)}]",
                        read("prometheus.yml"))
        config = re.sub(r"_interval: \d+s", "_interval: 1s", config)
        path = os.path.join(folder, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        self.address = f"127.0.0.1:{free_ports(1)}"
        self.process = processes.Background(
            ["prometheus", f"--config.file={path}", f"--web.listen-address={self.address}",
             f"--storage.tsdb.path={os.path.join(folder, 'tsdb')}"], folder, "prometheus.log")

    def ask(self, path, **query):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def has_numbers(self, expression):
        """Whether the expression gives series, one of them a number."""
        return any(math.isfinite(float(series["value"][1]))
                   for series in self.ask("query", query=expression)["result"])


class Monitoring(unittest.TestCase):
    def promtool(self, *args):
        done = subprocess.run(["promtool", *args], cwd=MONITORING, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_files(self):
        self.promtool("check", "config", "prometheus.yml")
        self.promtool("check", "rules", "--lint-fatal", "rules.yml")
        self.promtool("test", "rules", "rules_test.yml")
        tested = set(re.findall(r"alertname: (\w+)", read("rules_test.yml")))
        self.assertEqual(tested, set(re.findall(r"alert: (\w+)", read("rules.yml"))))

    def test_panels_do_not_overlap(self):
        taken, ids = set(), set()
        for panel in json.loads(read("dashboard.json"))["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            self.assertNotIn(panel["id"], ids)
            taken |= cells
            ids.add(panel["id"])

    def test_every_expression_gives_numbers(self):
        with tempfile.TemporaryDirectory(prefix="tandem-monitoring-") as folder:
            jobs.write_click(folder)
            port = free_ports(11)
            tandemrun = os.path.join(script.BIN, "tandemrun")
            with processes.Background(
                    [tandemrun, "--servers=2", "--workers=2", f"--status_port={port}",
                     "--pserver_data_dir=servers", "--standbys=1", "--log_dir=log",
                     f"--metrics_listen=127.0.0.1:{port + 10}", "job.pbtxt"], folder, "job.log") as job, processes.Background(
                         [tandemrun, "--mode=collective", "--nproc=2",
                          f"--status_port={port + 6}", "--log_dir=ranks", "job.pbtxt", "--",
                          "--checkpoint.dir="], folder, "ranks.log") as ranks, processes.Background(
                              [os.path.join(script.BIN, "tandem-pserver"),
                               "--resp_listen=127.0.0.1:0",
                               f"--status_listen=127.0.0.1:{port + 8}"], folder,
                              "resp.log") as resp:
                server = Server(folder, [f"127.0.0.1:{port + i}" for i in range(9)])
                with server.process:
                    self.check_expressions(server, [job, ranks, resp])
                    with processes.Background(
                            [os.path.join(script.BIN, "tandem"), "serve", "job.pbtxt",
                             "--log_dir=log", "--listen=127.0.0.1:0",
                             f"--status_listen=127.0.0.1:{port + 9}"], folder,
                            "serve.log") as serve:
                        processes.wait_until(lambda: "serving model" in serve.output(),
                                             SECONDS_MAX)
                        self.check_metrics_are_described(range(port, port + 11))

    def check_expressions(self, server, running):
        self.assertTrue(processes.wait_until(server.ready, SECONDS_MAX), server.process.output())
        wanted = dashboard_expressions()
        for group in server.ask("rules")["groups"]:
            for rule in group["rules"]:
                # An alert has no result while all is well, but the metrics that it compares must
                # exist.
                value = re.fullmatch(r"(.*) (?:<|>|!=) [0-9.]+", rule["query"], re.DOTALL)
                self.assertIsNotNone(value, rule["query"])
                wanted.append((rule["name"], value.group(1)))
        self.assertGreater(len(wanted), 40)
        self.assertFalse(server.has_numbers("tandem_no_such_metric"))

        missing = list(wanted)

        def all_there():
            missing[:] = [one for one in missing if not server.has_numbers(one[1])]
            return not missing or any(job.ended() for job in running)
        processes.wait_until(all_there, SECONDS_MAX)
        for job in running:
            self.assertFalse(job.ended(), job.output())
        self.assertEqual(missing, [], "these give no numbers")
        for group in server.ask("rules")["groups"]:
            for rule in group["rules"]:
                self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule)

    def check_metrics_are_described(self, ports):
        """docs/reference/metrics.md names what is exported, and nothing else."""
        exported = set()
        for port in ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                        timeout=30) as answer:
                exported |= set(re.findall(r"^# TYPE (tandem_\w+)", answer.read().decode(), re.M))
        with open(os.path.join(script.SOURCE, "docs", "reference", "metrics.md"),
                  encoding="utf-8") as file:
            described = set()
            for names, what in re.findall(r"^\| (`tandem_.*?) \| (.*) \|$", file.read(), re.M):
                for name in re.findall(r"`(tandem_[\w*]+)", names):
                    described |= ({name[:-1] + part for part in re.findall(r"`(\w+)`", what)}
                                  if name.endswith("*") else {name})
        self.assertEqual(described, exported)


if __name__ == "__main__":
    script.main()
