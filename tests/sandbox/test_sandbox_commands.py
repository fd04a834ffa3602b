import http.client
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from stoker.cli.main import main

PATIENCE = 120  # seconds; a process that takes longer hangs


def restore_ctrl_c():
    """Undo what a shell does to background jobs: they, and their children, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Served:
    """The command in a process of its own."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stoker.cli.main", "sandbox", "serve", "--port", "0", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=restore_ctrl_c,
        )

    def ask(self, address, host, path="/"):
        name, port = address.split(":")
        line = http.client.HTTPConnection(name, int(port), timeout=PATIENCE)
        line.request("GET", path, headers={"Host": host})
        answer = line.getresponse()
        body = answer.read()
        line.close()
        return answer.status, body

    def ended(self, by=signal.SIGINT):
        self.process.send_signal(by)
        # Not communicate(): it forgets what was read ahead together with the first line.
        with self.process.stdout as out, self.process.stderr as err:
            return self.process.wait(timeout=PATIENCE), out.read(), err.read()


@pytest.fixture
def served():
    running = []

    def start(*words):
        running.append(Served(*words))
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def test_it_serves_until_told_to_end_and_says_what_it_saw(served):
    one = served("--companies", "20", "--every", "2", "--json", "--dial", "sites.night=3")
    opening = json.loads(one.process.stdout.readline())

    for _ in range(2):
        status, page = one.ask(opening["address"], "sandbox.test")
    assert (status, b"/registry.csv" in page) == (200, True)
    so_far = json.loads(one.process.stdout.readline())
    status, dials = one.ask(opening["address"], "sandbox.test", "/dials")
    code, out, err = one.ended()

    assert (opening["said"], so_far["said"]) == ("serving", "so far")
    assert json.loads(dials) == {"sites": {"night": "3"}}
    assert "sandbox.test" in opening["hosts"]
    assert json.loads(out)["requests"] == 3
    assert (code, err) == (0, "")


def test_people_are_told_where_it_is_and_what_to_try(served):
    one = served("--companies", "5")
    first = one.process.stdout.readline()
    code, out, err = one.ended(by=signal.SIGTERM)

    assert "127.0.0.1:" in first
    assert "curl" in out
    assert "ended: 0 requests; charged: nothing" in out
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--dial", "tavily"), "VENDOR.DIAL=VALUE"),
        (("--dial", "tavily.wings=2"), "is no dial"),
        (("--dial", "tavilly.latency=1s"), "no dials of 'tavilly'"),
        (("--dial", "tavily.fault.hang=2"), "from 0 to 1"),
        (("--companies", "999999999"), "a world has"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(words, sentence, capsys):
    assert main(["sandbox", "serve", "--port", "0", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_to_be(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["sandbox", "serve", "--port", str(port)]) == 2
    assert f"port {port} cannot be listened on (Address already in use);" in capsys.readouterr().err
