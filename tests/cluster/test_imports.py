"""Training on a cluster does not import scikit-learn, on the client or on a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..training.training_cases import clicks

CODE = """
import sys
from distributed import Client, LocalCluster
from proxstream import cli

def imported():
    return sorted({"sklearn", "proxstream.estimators"} & set(sys.modules)) + ["proxstream.cluster.lanes" in sys.modules]

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        data, output = sys.argv[1:]
        assert cli.main(["train", data, "-o", output, "--cluster", client.scheduler.address, "--quiet"]) == 0
        print(imported(), *client.run(imported).values())
"""


def test_train_on_a_cluster_does_not_import_scikit_learn(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(CODE)
    data, output = clicks(tmp_path / "a.svm", 500), tmp_path / "a.psm"
    done = subprocess.run([sys.executable, script, data, output], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "[True] [True]"
    assert output.is_file()
