"""Runs the trials: all gateways at the same time, each with origins and load of its own. Prints goals and one table."""

import pathlib
import re
import threading
import traceback

from harness.command import Failure
from trials import (
    calls,
    cancelling,
    contenders,
    faults,
    identity,
    large_bodies,
    multiplexed,
    names,
    odd_servers,
    reloads,
    slowness,
)
from trials.lane import Lane
from trials.report import Report

ALL = [
    *faults.TRIALS,
    *slowness.TRIALS,
    *reloads.TRIALS,
    *names.TRIALS,
    *cancelling.TRIALS,
    *identity.TRIALS,
    *multiplexed.TRIALS,
    *calls.TRIALS,
    *large_bodies.TRIALS,
    *odd_servers.TRIALS,
]


def add_options(group):
    """The command line of `endurance.py upstreams`. --trial-seconds, --rate and --h2-requests have bounds there."""
    group.add_argument("--trial-seconds", type=int, default=60, help="load of each trial; default: %(default)s")
    group.add_argument("--rate", type=int, default=200, help="requests per second; default: %(default)s")
    group.add_argument("--h2-requests", type=int, default=100_000, help="for each HTTP/2 origin; default: %(default)s")
    group.add_argument("--trials", default="", help="names or their beginnings, such as '1,2 frozen'; default: all")
    group.add_argument("--peers", help="of envoy,haproxy,nginx, or none; default: those that are installed")
    group.add_argument("--only-peers", action="store_true", help="without the gateway")
    group.add_argument("--baseline", action="store_true", help="without the keys that older versions reject")
    group.add_argument("--slack", type=float, default=1, help="factor for limits of time; default: %(default)s")
    group.add_argument("--json", type=pathlib.Path, help="file for the figures; a table is written next to it (.md)")


def complete(options, parser):
    """Checks the options and turns lists into lists."""
    # Some names contain a comma and a space.
    options.trials = [name.strip() for name in re.split(r",(?! )", options.trials) if name.strip()]
    if options.peers is None:
        options.peers = contenders.installed()
    else:
        options.peers = [name for name in options.peers.split(",") if name not in ("", "none")]
    if unknown := set(options.peers) - set(contenders.PEERS):
        parser.error(f"no such peer: {', '.join(unknown)}")
    if unknown := [name for name in options.trials if not selected([name])]:
        parser.error(f"no trial begins with: {'; '.join(unknown)}")


def selected(names):
    """The trials with one of these names, or whose name begins with a word that is no name; all without any."""
    exact = {trial.name for trial in ALL}

    def is_named(trial):
        return any(trial.name == name or name not in exact and trial.name.startswith(name) for name in names)

    return [trial for trial in ALL if not names or is_named(trial)]


def takes_part(name, trial, options):
    if name == "machine":
        return trial.has_load
    if name not in trial.contenders:
        return False
    return name in options.peers or name == "cloakroom" and not options.only_peers


def run(environment, checks, options):
    """The scenario `upstreams` of endurance.py."""
    options.product = environment.binary
    versions = {name: contenders.version(name, environment.binary) for name in ("cloakroom", *options.peers)}
    report = Report(options, versions)
    for number, kind in enumerate(selected(options.trials)):
        trial = kind(options)
        lanes = run_trial(environment.folder / f"trial-{number}", trial, options)
        machine = lanes.pop("machine", None)
        checks.note(f"{trial.name}: {trial.title}")
        for name, lane in lanes.items():
            failure = next((each for each in (lane, machine) if isinstance(each, Exception)), None)
            if failure is None:
                trial.judge(lane, machine)
                report.add(trial, name, trial.row(lane), lane.goals, lane.facts)
                show_goals(checks, trial, name, lane.goals)
                continue
            report.add(trial, name, {"failure": (str(failure) or repr(failure)).splitlines()[0]}, [], {})
            if name == "cloakroom":
                checks.expect(trial.name, False, f"{failure}")
            else:
                checks.note(f"{name}: {failure}")
        if machine and not isinstance(machine, Exception):
            report.add(trial, "machine", trial.row(machine), [], {})
        print("\n" + "\n".join(report.table(trial.name)) + "\n", flush=True)
        report.write()
    for line in [*report.better(), *report.margins()]:
        checks.note(line)


def show_goals(checks, trial, name, goals):
    """Prints the goals of one gateway. Those of Cloakroom are checks, and each trial must judge one of them."""
    words = {True: "reached", False: "missed", None: "not judged"}
    for goal in goals:
        if name == "cloakroom" and goal.is_reached is not None:
            checks.expect(f"{trial.name}: {goal.statement}", goal.is_reached, goal.figures)
        else:
            checks.note(f"{name}: {words[goal.is_reached]}: {goal.statement}: {goal.figures}")
    if name == "cloakroom" and all(goal.is_reached is None for goal in goals):
        checks.expect(trial.name, False, "nothing was judged: the load was too short")


def run_trial(folder, trial, options):
    """A lane, or what ended it, by the name of the gateway."""
    names = [name for name in ("cloakroom", "envoy", "haproxy", "nginx", "machine") if takes_part(name, trial, options)]
    lanes, results = {}, {}

    def run_lane(name):
        try:
            trial.run(lanes[name])
            results[name] = lanes[name]
        except Exception as error:
            if not isinstance(error, Failure):
                traceback.print_exc()
            results[name] = error

    for name in names:
        lanes[name] = Lane(name, folder / name, trial.policy, options, dict(trial.changes))
    threads = [threading.Thread(target=run_lane, args=(name,), daemon=True) for name in names]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for lane in lanes.values():
            lane.stop()
    return {name: results[name] for name in names}
