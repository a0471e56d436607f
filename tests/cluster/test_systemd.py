"""The units have only keys that systemd knows, in the sections where it reads them."""

import re
import shutil
import subprocess

import pytest

from tests.cluster.kube import ROOT

FOLDER = ROOT / "cluster" / "systemd"
KEYS = {  # man pages systemd.unit, systemd.service, systemd.exec, systemd.kill, systemd.timer
    ".service": {
        "Unit": {"Description", "Documentation", "After", "Wants"},
        "Service": {
            "Type", "User", "Group", "StateDirectory", "WorkingDirectory", "ExecStart", "SuccessExitStatus", "KillMode",
            "TimeoutStopSec", "TimeoutStartSec", "Nice", "NoNewPrivileges", "PrivateTmp", "ProtectSystem",
            "ProtectHome", "UMask", "CacheDirectory", "Environment",
        },
    },
    ".timer": {
        "Unit": {"Description"},
        "Timer": {"OnCalendar", "RandomizedDelaySec", "Persistent", "Unit"},
        "Install": {"WantedBy"},
    },
}  # fmt: skip


def sections(path):
    """Keys and values of a unit, by section."""
    found = {}
    for line in re.sub(r"\\\n\s*", " ", path.read_text()).splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            found[heading[1]] = section = {}
        elif line and not line.startswith("#"):
            key, value = re.fullmatch(r"(\w+)=(.+)", line).groups()
            assert key not in section
            section[key] = value
    return found


@pytest.mark.parametrize("kind", [".service", ".timer"])
def test_a_unit_has_the_keys_that_we_mean(kind):
    [path] = FOLDER.glob(f"*{kind}")
    assert {name: set(keys) for name, keys in sections(path).items()} == KEYS[kind]


def test_the_timer_starts_the_service_which_stops_gently_and_takes_a_held_lease_for_no_failure():
    [timer], [service] = FOLDER.glob("*.timer"), FOLDER.glob("*.service")
    assert sections(timer)["Timer"]["Unit"] == service.name
    started = sections(service)["Service"]
    assert (started["Type"], started["KillMode"], started["SuccessExitStatus"]) == ("oneshot", "mixed", "4")
    registry = started["ExecStart"].split()[-1]
    assert registry == f"/var/lib/{started['StateDirectory']}/registry"  # all else is read-only: ProtectSystem=strict
    places = dict(word.split("=", 1) for word in started["Environment"].split())
    assert places.keys() == {"HOME", "NUMBA_CACHE_DIR", "GSCL_SCALE_CACHE"}
    own = (f"/var/lib/{started['StateDirectory']}", f"/var/cache/{started['CacheDirectory']}")
    assert all(place.startswith(own) for place in places.values())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_takes_both_units(tmp_path):
    for path in FOLDER.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/gscl-scale/bin/gscl-scale", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
