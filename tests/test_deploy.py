"""The image, the compose file and the examples: what they say is run here, as far as that works without an engine."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import yaml

from macrid import runs

ROOT = Path(__file__).parent.parent
SECRETS = {"MACRID_TOKEN": "correct horse battery", "POSTGRES_PASSWORD": "staple"}


def instructions(text):
    """The instructions of a Dockerfile, in order: (name, arguments)."""
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines if line)]


DOCKERFILE = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def values(name):
    return [rest for each, rest in DOCKERFILE if each == name]


def exec_form(text):
    """The command in JSON that an instruction ends with."""
    return json.loads(text[text.index("[") :])


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


# The image


def test_the_image_runs_as_nobody_special_and_has_two_stages():
    names = [name for name, _ in DOCKERFILE]
    assert names.count("FROM") == 2
    assert all("-slim" in rest for rest in values("FROM"))
    last = len(names) - 1 - names[::-1].index("FROM")
    assert not [rest for name, rest in DOCKERFILE[last:] if "pip install" in rest]  # nothing that builds
    (user,) = values("USER")
    assert f"useradd --uid 10001 --create-home {user}" in " ".join(values("RUN"))
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert {"/runs", "/data"} == {*exec_form(values("VOLUME")[0])}


def test_the_image_installs_what_serving_needs_and_nothing_for_development():
    (install,) = (shlex.split(rest) for rest in values("RUN") if "pip install" in rest)
    (target,) = (word for word in install if word.startswith("."))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.fullmatch(r"\.\[(.*)\]", target)[1].split(",")
    assert {"postgres", "serve"} == {*extras} <= {*project["optional-dependencies"]}
    assert install[install.index("-c") + 1] == "constraints.txt"
    assert install[install.index("--extra-index-url") + 1].endswith("/whl/cpu")


def test_what_is_copied_exists_and_is_not_ignored():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    for rest in values("COPY"):
        *sources, _ = [word for word in rest.split() if not word.startswith("--")]
        if "--from" not in rest:
            assert {*sources} <= kept
            assert all((ROOT / source).exists() for source in sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {project["readme"], *project["license-files"]} <= kept


def test_the_shell_commands_are_well_formed_and_those_of_macrid_run(tmp_path):
    for rest in values("RUN"):
        command = re.sub(r"^--mount=\S+\s+", "", rest)
        subprocess.run(["sh", "-n", "-c", command], check=True)
        if "/bin/macrid" in command:
            own = command.replace("/opt/macrid/bin/macrid", f"{shlex.quote(sys.executable)} -m macrid")
            subprocess.run(["sh", "-ec", own], check=True, cwd=tmp_path, capture_output=True)


class Service:
    """The process that the image starts, in a fresh folder and on a free port."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (entry,), command = exec_form(values("ENTRYPOINT")[0]), exec_form(values("CMD")[-1])
        assert entry == "macrid"
        command = [word.replace("/runs", str(folder / "runs")) for word in command]
        events = f"sqlite:///{folder}/events.db"
        self.environment = {**os.environ, "MACRID_TOKEN": SECRETS["MACRID_TOKEN"], "MACRID_EVENTS": events}
        self.address = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "macrid", *command, "--port", str(self.port)],
            env=self.environment, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def get(self, path):
        request = Request(self.address + path, headers={"authorization": f"Bearer {SECRETS['MACRID_TOKEN']}"})
        with urlopen(request, timeout=20) as response:
            return response.read().decode()

    def health(self):
        """The exit code of the image's health check."""
        check = exec_form(values("HEALTHCHECK")[0])
        assert check[0] == "python"
        check = [sys.executable, *(word.replace(":8000", f":{self.port}") for word in check[1:])]
        return subprocess.run(check, capture_output=True, check=False).returncode

    def wait(self):
        for _ in range(600):
            assert self.process.poll() is None, self.process.communicate()[1]
            with suppress(URLError, ConnectionError):
                self.get("/readyz")
                return
            time.sleep(0.1)
        raise AssertionError("not ready after a minute")


@pytest.fixture(scope="module")
def service(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deploy")
    (folder / "runs").mkdir()
    runs.save(trained[0], folder / "runs" / "2026-11-17")
    (folder / "runs" / "current").symlink_to("2026-11-17")
    service = Service(folder)
    assert service.health() != 0
    service.wait()
    yield service
    service.process.send_signal(signal.SIGTERM)  # as `docker stop` does
    service.process.communicate(timeout=30)
    assert service.process.returncode in (0, -signal.SIGTERM)
    assert service.health() != 0


def test_the_command_of_the_image_serves_and_its_health_check_sees_it(service):
    assert service.health() == 0
    assert exec_form(values("CMD")[-1])[0] == "serve"
    assert values("EXPOSE") == ["8000"]


def test_prometheus_finds_the_metrics_with_the_token(service, compose):
    config = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert "macrid_" in service.get(job["metrics_path"])
    assert job["static_configs"] == [{"targets": ["macrid:8000"]}]
    (secret,) = compose["services"]["prometheus"]["secrets"]
    assert job["authorization"] == {"type": "Bearer", "credentials_file": f"/run/secrets/{secret}"}
    assert compose["secrets"][secret] == {"environment": "MACRID_TOKEN"}


def test_the_example_in_node_posts_events_and_gets_recommendations(service, trained):
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    model = trained[0]
    liked = [str(item) for item in model.items[:2]]
    script = [node, ROOT / "examples" / "events-node" / "events.mjs", service.address, "alice/ö", *liked]
    done = subprocess.run(script, env=service.environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    expected = model.recommend(model.items[:2], 5)
    assert lines == [f"{rank}. {item.title} [{item.id}]" for rank, item in enumerate(expected, start=1)]
    assert json.loads(first.removeprefix("stored "))["added"] == 2
    wrong = {**service.environment, "MACRID_TOKEN": "wrong token"}
    done = subprocess.run(script, env=wrong, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert re.fullmatch(r"error: GET /v1/openapi.json: 401 .*\n", done.stderr)


def test_the_example_with_curl_posts_an_event(service, trained):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    item = str(trained[0].items[0])
    script = ["bash", ROOT / "examples" / "events-curl" / "events.sh", service.address, "bob", item]
    done = subprocess.run(script, env=service.environment, capture_output=True, text=True, check=True, timeout=60)
    added, recommended = map(json.loads, done.stdout.splitlines())
    assert added["added"] == 1
    assert [each["id"] for each in recommended["items"]] == [str(each) for each in trained[0].recommend([item], 5).ids]


@pytest.mark.alone
def test_the_image_builds_and_becomes_healthy(trained, tmp_path):
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker engine is running")

    def run(*command):
        return subprocess.run([docker, *command], capture_output=True, text=True, check=True).stdout.strip()

    runs.save(trained[0], tmp_path / "runs" / "current")
    for path in (tmp_path / "runs", *(tmp_path / "runs").rglob("*")):
        path.chmod(0o755)
    image = run("build", "--quiet", str(ROOT))
    token = f"MACRID_TOKEN={SECRETS['MACRID_TOKEN']}"
    container = run("run", "--detach", "--env", token, "--volume", f"{tmp_path / 'runs'}:/runs:ro", image)
    try:
        for _ in range(120):
            if run("inspect", "--format", "{{.State.Health.Status}}", container) == "healthy":
                break
            time.sleep(1)
        assert run("inspect", "--format", "{{.State.Health.Status}}", container) == "healthy", run("logs", container)
        assert run("exec", container, "id", "-u") == "10001"
        run("stop", container)
        assert run("inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    finally:
        run("rm", "--force", container)


# The compose file


def test_the_services_of_the_compose_file_know_each_other(compose):
    services = compose["services"]
    assert {*services} == {"macrid", "postgres", "prometheus"}
    own = services["macrid"]
    assert own["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert own["environment"]["MACRID_EVENTS"].endswith("@postgres/macrid")
    assert services["postgres"]["environment"]["POSTGRES_USER"] == services["postgres"]["environment"]["POSTGRES_DB"]
    assert "healthcheck" in services["postgres"]
    targets = [mount.rpartition(":")[2] for mount in own["volumes"]]
    assert targets == exec_form(values("VOLUME")[0])
    for each in services.values():
        for mount in each["volumes"]:
            source = mount.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists()
            elif not source.startswith("$"):
                assert source in compose["volumes"]


def test_no_secret_is_written_down_and_all_are_required():
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    used = dict(re.findall(r"\$\{(\w+)(:[?-])", text))
    assert {name for name, sign in used.items() if sign == ":?"} == {*SECRETS}


def test_compose_accepts_the_file(tmp_path):
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "-f", ROOT / "compose.yaml", "config", "--format", "json"]
    done = subprocess.run(command, env={**os.environ, **SECRETS}, capture_output=True, text=True, check=True)
    services = json.loads(done.stdout)["services"]
    assert services["macrid"]["environment"]["MACRID_EVENTS"] == "postgresql://macrid:staple@postgres/macrid"
    without = {name: value for name, value in os.environ.items() if name not in SECRETS}
    assert subprocess.run(command, env=without, capture_output=True, check=False).returncode != 0


def test_the_unit_of_systemd_starts_the_service():
    text = (ROOT / "deploy" / "macrid.service").read_text(encoding="utf-8")
    (start,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    words = shlex.split(start)
    help_text = subprocess.run(
        [sys.executable, "-m", "macrid", words[1], "--help"], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout  # fmt: skip
    assert all(word in help_text for word in words if word.startswith("--"))
    assert "ExecReload=/bin/kill -HUP $MAINPID" in text
