"""Learning on a cluster of real processes: one lane is the local learner, and a fault changes not one bit."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy.sparse import csr_matrix, random_array

import proxstream as ps
from proxstream.cluster import DaskStreamClassifier, DaskStreamRegressor
from proxstream.cluster.lane_reader import LanePosition
from proxstream.cluster.rounds import Rounds
from proxstream.cluster.schedule import Schedule

N, D, STEP = 12_000, 60, 1_700
FTRL, AUTO = ps.FTRLProximal(alpha=0.5), ps.AutoFTRL(scale="feature")


def piece(start, stop=None, classes=2):
    """Return rows of one endless stream that anybody can make: workers make their own."""
    rows = []
    for k in range(start // 100, -(-(stop or start + STEP) // 100)):
        rng = np.random.default_rng(k)
        X = random_array((100, D), density=0.2, rng=rng, format="csr", data_sampler=rng.standard_normal)
        truth = np.random.default_rng(99).normal(size=(D, classes))
        scores = X @ truth + rng.logistic(size=(100, classes))
        rows.append((X.toarray(), np.argmax(scores, axis=1)))
    X, y = np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows])
    skip = start - start // 100 * 100
    return X[skip : skip + (stop or start + STEP) - start], y[skip : skip + (stop or start + STEP) - start]


def made_by_workers(classes=2, slow=0.0, dies=None):
    """Return delayed partitions; one of them kills its worker the first time, if a path is given."""

    @dask.delayed
    def make(start):
        if dies is not None and start == 4 * STEP and not os.path.exists(dies):
            with open(dies, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(slow)
        X, y = piece(start, min(start + STEP, N), classes)
        return csr_matrix(X), y

    return [make(start) for start in range(0, N, STEP)]


@pytest.fixture(scope="module")
def rows():
    return piece(0, N)


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    X, y = rows
    folder = tmp_path_factory.mktemp("stream")
    for k, start in enumerate(range(0, N, 5_000)):
        lines = (
            f"{y[i]} " + " ".join(f"{j}:{X[i, j]:.8g}" for j in np.flatnonzero(X[i]))
            for i in range(start, min(start + 5_000, N))
        )
        (folder / f"{k}.svm").write_text("\n".join(lines) + "\n")
    return [str(folder / f"{k}.svm") for k in range(3)]


def same(model, other):
    """Tell whether two models are the same bits, in all that they remember."""
    one, two = model._learner.state_dict(), other._learner.state_dict()
    assert one.keys() == two.keys()
    return all(np.array_equal(one[name], two[name]) for name in one)


# ---- one lane


@pytest.mark.parametrize(("algorithm", "passes"), [(AUTO, 1), (FTRL, 2), (ps.RDA(gamma=3.0), 1)])
def test_one_lane_is_the_local_learner(client, rows, algorithm, passes):
    options = {"algorithm": algorithm, "penalty": ps.L1(1e-4), "passes": passes}
    model = DaskStreamClassifier(**options, lanes=1, rows_per_round=2_500).fit(made_by_workers())
    local = ps.StreamClassifier(**options).fit(*rows)
    assert same(model, local)
    assert model.progressive_loss_ == local.progressive_loss_
    assert model.t_ == N * passes
    assert [ended.rows for ended in model.rounds_[:3]] == [1024, 2048, 2500]
    np.testing.assert_array_equal(model.coef_, local.coef_)
    np.testing.assert_array_equal(model.predict(rows[0]), local.predict(rows[0]))


def test_one_lane_of_files_is_the_local_stream(client, files):
    model = DaskStreamClassifier(AUTO, lanes=1, rows_per_round=3_333).fit(files, classes=[0, 1])
    local = ps.StreamClassifier(AUTO).fit_stream(ps.open_stream(files), classes=[0, 1])
    assert same(model, local)
    found = DaskStreamClassifier(AUTO, lanes=1, rows_per_round=3_333).fit(files[0][:-5] + "*.svm")
    assert found.classes_.tolist() == [0, 1]
    assert same(found, model)


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("kind", "scale"), [("wild", "feature"), ("unit", "global")])
def test_the_default_takes_the_scale_that_a_single_stream_takes(client, rows, kind, scale):
    X, y = rows[0][:6_000], rows[1][:6_000]
    X = X * 10.0 ** np.arange(-3, 3).repeat(D // 6) if kind == "wild" else X / np.maximum(np.abs(X).sum(1), 1)[:, None]
    local = ps.StreamClassifier().fit(X, y)
    assert local._learner.engine.scale == scale
    dX, dy = da.from_array(X, chunks=(900, D)), da.from_array(y, chunks=900)
    model = DaskStreamClassifier(lanes=1).fit(dX, dy)
    assert model._learner.algorithm == ps.AutoFTRL(scale=scale)
    np.testing.assert_array_equal(model.coef_, local.coef_)
    assert same(model, DaskStreamClassifier(ps.AutoFTRL(scale=scale), lanes=1).fit(dX, dy))
    several = DaskStreamClassifier(lanes=3).fit(dX, dy)
    assert several._learner.algorithm == ps.AutoFTRL(scale=scale)
    assert several.partial_fit(dX, dy).t_ == 12_000


def test_the_default_takes_the_scale_of_the_first_rows_of_files(client, files):
    model = DaskStreamClassifier(lanes=2).fit(files, classes=[0, 1])
    local = ps.StreamClassifier().fit_stream(ps.open_stream(files), classes=[0, 1])
    assert model._learner.algorithm.scale == local._learner.engine.scale


def test_a_model_that_is_still_trying_continues_with_the_scale_ahead(client, rows):
    X, y = rows[0][:3_000], rows[1][:3_000]
    model = DaskStreamClassifier(lanes=1)
    local = ps.StreamClassifier().partial_fit(X[:1000], y[:1000], classes=[0, 1])
    ahead = local._learner.engine.scale
    model._learner, model.classes_, model.n_features_in_ = local._learner, local.classes_, D
    model._sparse = False
    model.partial_fit(da.from_array(X[1000:], chunks=(900, D)), da.from_array(y[1000:], chunks=900))
    alone = ps.StreamClassifier(ps.AutoFTRL(scale=ahead)).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)


@pytest.mark.exhaustive
def test_weights_classes_and_numbers(client, rows):
    X = rows[0]
    cut = X[:3000], piece(0, 3000, 3)[1]
    dX, c = da.from_array(cut[0], chunks=(700, D)), np.random.default_rng(0).integers(0, 3, 3000).astype(float)
    options = {"class_weight": "balanced", "algorithm": FTRL}
    model = DaskStreamClassifier(**options, lanes=1).fit(dX, np.array(list("abc"))[cut[1]], c)
    local = ps.StreamClassifier(**options).fit(cut[0], np.array(list("abc"))[cut[1]], c)
    assert model.classes_.tolist() == list("abc")
    np.testing.assert_allclose(model.coef_, local.coef_, rtol=1e-12)
    numbers = cut[0] @ np.arange(D) + 3.0
    regressor = DaskStreamRegressor(FTRL, lanes=1).fit(dX, da.from_array(numbers, chunks=700))
    assert same(regressor, ps.StreamRegressor(FTRL).fit(cut[0], numbers))
    assert regressor.score(dX, da.from_array(numbers, chunks=700)) == regressor.to_local().score(cut[0], numbers)


def test_partial_fit_goes_on(client, rows):
    X, y = rows
    dX, dy = da.from_array(X[:4000], chunks=(900, D)), da.from_array(y[:4000], chunks=900)
    model = DaskStreamClassifier(FTRL, lanes=1)
    model.partial_fit(dX[:1800], dy[:1800], classes=[0, 1]).partial_fit(dX[1800:], dy[1800:])
    assert same(model, ps.StreamClassifier(FTRL).partial_fit(X[:4000], y[:4000], classes=[0, 1]))
    with pytest.raises(ValueError, match="not the same as on the first call"):
        model.partial_fit(dX, dy, classes=[0, 2])
    with pytest.raises(ValueError, match="X has 59 features, but the model has 60"):
        model.partial_fit(dX[:, :59], dy)


# ---- several lanes


@pytest.fixture(scope="module")
def four_lanes(cluster):
    """What four lanes learn when nothing goes wrong."""
    with Client(cluster):
        return DaskStreamClassifier(FTRL, penalty=ps.L1(1e-4), lanes=4, rows_per_round=4_000).fit(made_by_workers())


def test_several_lanes_are_near_the_local_learner(four_lanes, rows):
    held_out = piece(N, N + 5_000)
    local = ps.StreamClassifier(FTRL, penalty=ps.L1(1e-4)).fit(*rows)
    loss = [_log_loss(model, held_out) for model in (four_lanes.to_local(), local)]
    assert loss[0] < 1.05 * loss[1]
    assert four_lanes.t_ == N
    assert sum(ended.rows for ended in four_lanes.rounds_) == N
    assert all(ended.rows <= 4_000 for ended in four_lanes.rounds_)


def _log_loss(model, rows):
    return float(-np.log(model.predict_proba(rows[0])[np.arange(len(rows[1])), rows[1]]).mean())


@pytest.mark.exhaustive
def test_workers_do_not_matter(cluster, client, four_lanes):
    """Four processes learn what two did."""
    cluster.scale(4)
    try:
        client.wait_for_workers(4)
        model = DaskStreamClassifier(FTRL, penalty=ps.L1(1e-4), lanes=4, rows_per_round=4_000).fit(made_by_workers())
        assert len(client.nthreads()) == 4
    finally:
        cluster.scale(2)
    assert same(model, four_lanes)


@pytest.mark.exhaustive
def test_a_worker_that_is_killed_while_it_makes_rows(client, four_lanes, tmp_path):
    model = DaskStreamClassifier(FTRL, penalty=ps.L1(1e-4), lanes=4, rows_per_round=4_000)
    model.fit(made_by_workers(dies=str(tmp_path / "died")))
    assert (tmp_path / "died").exists()
    assert same(model, four_lanes)


def test_workers_that_are_killed_in_the_midst_of_a_round(client, files, monkeypatch):
    """All workers are killed while two rounds are under way, so that no state survives but the client's."""
    options = {"algorithm": FTRL, "lanes": 3, "rows_per_round": 600}
    straight = DaskStreamClassifier(**options).fit(files, classes=[0, 1])
    record, pids = Rounds._record_round, set(client.run(os.getpid).values())

    def record_and_kill(self, *ended):
        record(self, *ended)
        if self.progress.round == 4:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(Rounds, "_record_round", record_and_kill)
    model = DaskStreamClassifier(**options).fit(files, classes=[0, 1])
    assert same(model, straight)
    client.wait_for_workers(2)
    assert not pids & set(client.run(os.getpid).values())


def test_a_client_that_is_killed_resumes_from_its_checkpoint(cluster, client, files, tmp_path):
    path = tmp_path / "run.ckpt"
    script = (
        "import sys, os, signal\n"
        "import proxstream as ps\n"
        "from proxstream.cluster import DaskStreamClassifier\n"
        "from proxstream.training.checkpoint import CheckpointStore\n"
        "save = CheckpointStore.save\n"
        "def last(self, header, arrays):\n"
        "    save(self, header, arrays)\n"
        "    if header['rounds']['progress']['round'] == 5:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "CheckpointStore.save = last\n"
        "address, path, *files = sys.argv[1:]\n"
        "model = DaskStreamClassifier(lanes=2, rows_per_round=900, client=address, checkpoint=path)\n"
        "model.fit(files, classes=[0, 1])\n"
    )
    command = [sys.executable, "-c", script, cluster.scheduler_address, str(path), *files]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    options = {"lanes": 2, "rows_per_round": 900, "client": client}
    with pytest.raises(ValueError, match="was written with rows_per_round 900, this run has 901"):
        DaskStreamClassifier(**options | {"rows_per_round": 901}, checkpoint=path).fit(files, classes=[0, 1])
    resumed = DaskStreamClassifier(**options, checkpoint=path).fit(files, classes=[0, 1])
    straight = DaskStreamClassifier(**options).fit(files, classes=[0, 1])
    assert resumed.rounds_[0].number == 6
    assert same(resumed, straight)
    assert not path.exists()


# ---- the model


def test_dask_predictions_are_lazy_and_the_same(client, rows, four_lanes):
    X = rows[0][:3000]
    dX = da.from_array(X, chunks=(1000, 20)).map_blocks(csr_matrix).rechunk({1: -1})
    local = four_lanes.to_local()
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        lazy = getattr(four_lanes, method)(dX)
        assert isinstance(lazy, da.Array)
        np.testing.assert_array_equal(lazy.compute(), getattr(local, method)(X))
        assert lazy.shape == getattr(local, method)(X).shape


def test_model_files_hold_the_local_estimator(four_lanes, rows, tmp_path):
    ps.save(four_lanes, tmp_path / "model.psm")
    loaded = ps.load(tmp_path / "model.psm")
    assert type(loaded) is ps.StreamClassifier
    assert same(loaded.partial_fit(*rows), copy.deepcopy(four_lanes.to_local()).partial_fit(*rows))


def test_unsupported_settings_are_rejected(client, rows):
    dX, dy = da.from_array(rows[0][:100], chunks=(50, D)), rows[1][:100]
    for model, error, message in (
        (DaskStreamClassifier(ps.MirrorDescent()), TypeError, "DaskStreamClassifier: the state of MirrorDescent"),
        (DaskStreamClassifier(FTRL, average=True), TypeError, "average must be False"),
        (DaskStreamClassifier(lanes=0), ValueError, "lanes must be an integer >= 1"),
        (DaskStreamClassifier(rows_per_round=0), ValueError, "rows_per_round must be an integer >= 1"),
        (DaskStreamClassifier(client=5), TypeError, "client must be"),
    ):
        with pytest.raises(error, match=message):
            model.fit(dX, dy)
        assert not hasattr(model, "t_")
    with pytest.raises(ValueError, match="features must be finite"):
        DaskStreamClassifier(FTRL).fit(da.from_array(np.full((100, 2), np.nan), chunks=50), dy)
    with pytest.raises(ValueError, match="label 1"):
        DaskStreamClassifier(FTRL).fit(dX, dy, classes=[0, 2])
    with pytest.raises(ValueError, match="no rows to learn from"):
        DaskStreamClassifier(FTRL).fit([dask.delayed((np.zeros((0, 2)), np.zeros(0)))])


# ---- the command line


def train(*words):
    command = [sys.executable, "-m", "proxstream", "train", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_line_learns_the_same_model(cluster, files, tmp_path):
    """One file is one lane, so that the learner is that of a run without a cluster."""
    on = "--cluster", cluster.scheduler_address, "--rows-per-round", 3_000
    words = "--l1", 1e-4, "--scale", "feature"
    done = train(files[0], "-o", tmp_path / "there.psm", *words, *on)
    assert done.returncode == 0, done.stderr
    assert train(files[0], "-o", tmp_path / "here.psm", *words, "--quiet").returncode == 0
    here, there = (ps.load(tmp_path / f"{name}.psm") for name in ("here", "there"))
    for name, array in here.learner.state_dict().items():
        np.testing.assert_array_equal(array, there.learner.state_dict()[name])
    assert (here.classes, here.reading) == (there.classes, there.reading)
    for name in ("accuracy", "auc", "auc_error", "best_constant", "best_constant_loss", "progressive_loss", "nonzeros"):
        assert here.summary[name] == there.summary[name]
    assert [line["rows"] for line in there.history] == [1024, 3072, 5000, 5000]
    columns = done.stderr.splitlines()
    assert any("mean loss" in line for line in columns)
    assert any(line.split()[:2] == ["rows", "5,000"] for line in columns)


@pytest.mark.exhaustive
def test_a_command_line_that_is_killed_is_resumed_to_the_same_bytes(files, tmp_path):
    """Killed in the second of two passes: lines, counts for the AUC and all else go on."""
    on = ["--cluster", "local:2", "--rows-per-round", "1500", "--checkpoint", "1", "--passes", "2"]
    command = ["train", *files, "-o", str(tmp_path / "killed.psm"), *on]
    script = (
        "import sys, os, signal\n"
        "from proxstream.cli import main\n"
        "from proxstream.training.checkpoint import CheckpointStore\n"
        "save = CheckpointStore.save\n"
        "def last(self, header, arrays, rows):\n"
        "    save(self, header, arrays, rows)\n"
        "    if header['session']['number'] == 1 and header['session']['rows'] > 4000:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    CheckpointStore.save = last\n"
        "    main(sys.argv[1:])\n"
    )
    (tmp_path / "script.py").write_text(script)
    killed = subprocess.run([sys.executable, tmp_path / "script.py", *command], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed.psm").exists()
    done = train(*command[1:], "--resume")
    assert done.returncode == 0, done.stderr
    assert "resumed after 1" in done.stderr
    straight = train(*files, "-o", tmp_path / "straight.psm", *on[:-4], "--passes", "2")
    assert straight.returncode == 0, straight.stderr
    assert "accuracy" in straight.stderr
    assert (tmp_path / "killed.psm").read_bytes() == (tmp_path / "straight.psm").read_bytes()
    assert not (tmp_path / "killed.psm.ckpt").exists()


@pytest.mark.exhaustive
def test_the_command_line_names_what_a_cluster_cannot_do(files, tmp_path):
    for words, said in (
        (("--cluster", "local:1", "--algorithm", "sgd"), "is not a sum over rows"),
        (("--cluster", "local:1", "--average"), "--average does not apply to --cluster"),
        (("--cluster", "local:1", "--shuffle-buffer", "9"), "--shuffle-buffer does not apply to --cluster"),
        (("--cluster", "local:1", "--algorithm", "certified"), "--algorithm certified cannot run on a cluster"),
        (("--rows-per-round", "5"), "--rows-per-round applies to --cluster only"),
    ):
        done = train(files[0], "-o", tmp_path / "m.psm", *words)
        assert done.returncode == 2
        assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "m.psm").exists()


def test_dask_is_imported_when_asked_for_and_named_when_missing(files, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import sys, proxstream.cluster, proxstream.cli.train; print('dask' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
    without = "import sys\nsys.modules['distributed'] = None\n"
    for line, said in (
        ("from proxstream.cluster import DaskStreamClassifier", "needs Dask: pip install 'proxstream[cluster]'"),
        (
            f"from proxstream.cli import main; main(['train', {files[0]!r}, '-o', 'm.psm', '--cluster', 'local'])",
            "needs Dask",
        ),
    ):
        failed = subprocess.run([sys.executable, "-c", without + line], capture_output=True, text=True, check=False)
        assert said in " ".join(failed.stderr.split())


# ---- more than memory


@pytest.mark.exhaustive
def test_a_file_larger_than_a_worker(tmp_path, rows):
    """One worker with less memory than the file has bytes reads it to its end, and lives."""
    X, y = rows
    text = "".join(
        f"{y[i]} " + " ".join(f"{j}:{X[i, j]:.17g}" for j in np.flatnonzero(X[i])) + "\n" for i in range(4000)
    )
    limit, path = 500 << 20, tmp_path / "large.svm"
    times = limit // len(text) + 10
    with open(path, "w") as file:
        for _ in range(times):
            file.write(text)
    assert path.stat().st_size > limit
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit=limit, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        before = set(client.run(os.getpid).values())
        model = DaskStreamClassifier(FTRL, client=client, rows_per_round=100_000).fit([path], classes=[0, 1])
        assert set(client.run(os.getpid).values()) == before
    assert model.t_ == 4000 * times


# ---- schedule


def test_a_schedule_takes_each_row_once():
    rows = (3, 0, 7, 4, 1)
    schedule, seen = Schedule([[[0, 2, 4], [1, 3]]], rows), []
    while schedule.has_rows():
        for taken in schedule.take(2):
            seen += [(part, row) for part, start, stop in taken or [] for row in range(start, stop)]
            assert sum(stop - start for _, start, stop in taken or []) <= 2
        assert schedule.needed() >= {
            part for part, row in ((p, r) for p in range(5) for r in range(rows[p])) if (part, row) not in seen
        }
    assert sorted(seen) == [(part, row) for part in range(5) for row in range(rows[part])]
    assert Schedule([[[0, 1]]], None, 0, [LanePosition(1)], [False]).take(5) == [[]]


def test_a_schedule_continues_with_the_next_pass_between_rounds():
    schedule = Schedule([[[0], [1]], [[1], [0]]], (3, 5))
    taken = []
    while schedule.has_rows():
        taken.append((schedule.take(4), schedule.number))
    assert taken == [
        ([[(0, 0, 3)], [(1, 0, 4)]], 0),
        ([None, [(1, 4, 5)]], 0),
        ([[(1, 0, 4)], [(0, 0, 3)]], 1),
        ([[(1, 4, 5)], None], 1),
    ]
    assert not Schedule([[[0]], [[0]]], (0,)).has_rows()
