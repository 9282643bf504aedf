"""Dask on this machine, as on a cluster: a scheduler and workers that may be killed."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path


@contextlib.contextmanager
def dask_cluster(tmp_path, workers=2):
    """A scheduler and workers over TCP on loopback; yields its address and the processes."""
    file = tmp_path / "scheduler.json"
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    processes = [
        subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)], **quiet
        )
    ]
    try:
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline and processes[0].poll() is None
            time.sleep(0.1)
        time.sleep(0.2)
        address = re.search(r"tcp://[\d.:]+", file.read_text())[0]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        options = ["--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        for _ in range(workers):
            processes.append(subprocess.Popen([*worker, *options], env=environment, **quiet))
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
