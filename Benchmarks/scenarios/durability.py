"""Sessions in SQLite: kill -9 during sign-ins. Every acknowledged session must be stored."""

import itertools
import os
import signal
import threading
import time

from harness.command import Failure
from scenarios import http1, session_helpers

THREADS = 16


def run(environment, checks, options):
    # Many accounts, because the number of sessions per account is limited.
    names = [f"user-{number}@example.com" for number in range(options.sign_ins // 20 + 1)]
    mock, emails = session_helpers.mock(environment, 3_600, names), itertools.cycle(names)
    session = {"store": "sqlite", "sqlite": {"path": str(environment.folder / "sessions.sqlite")}}
    cookies, wanted = [], options.sign_ins
    for round_number in range(1, 4):
        gateway = session_helpers.gateway(environment, mock, session)
        before = len(cookies)
        stop_at = before + wanted // 3
        over = threading.Event()

        def sign_in():
            while not over.is_set() and len(cookies) < before + wanted:
                try:
                    cookies.append(session_helpers.sign_in(gateway.port, next(emails)))
                except (OSError, Failure, http1.Closed, http1.Truncated):
                    # Killed before the response: nothing was acknowledged.
                    return

        threads = [threading.Thread(target=sign_in, daemon=True) for _ in range(THREADS)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        while len(cookies) < stop_at and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
        os.kill(gateway.pid, signal.SIGKILL)
        is_during = stop_at <= len(cookies) < before + wanted and any(thread.is_alive() for thread in threads)
        rate = (len(cookies) - before) / (time.monotonic() - start)
        over.set()
        for thread in threads:
            thread.join(40)
        figures = f"after {len(cookies) - before} sign-ins, {rate:.0f}/s"
        checks.expect(f"kill -9 no. {round_number} happens during sign-ins", is_during, figures)
    gateway = session_helpers.gateway(environment, mock, session)
    # Local responses first, then forwarded requests, which need the tokens.
    lost = [cookie for cookie in cookies if session_helpers.current_session(gateway.port, cookie) != 200]
    checks.expect("every acknowledged sign-in is stored", not lost, f"{len(cookies)} acknowledged, {len(lost)} lost")
    rejected = sum(session_helpers.video(gateway.port, cookie) != 200 for cookie in cookies[::10])
    checks.expect("and valid for requests", rejected == 0, f"{len(cookies[::10])} requests, {rejected} rejected")
