#!/usr/bin/env bash
# MLflow 3.17.2: the metric of a run is the value of its largest step, not the one that was logged last.
#
# One expects: `run.data.metrics`, `search_runs` and the table of runs show the value that was logged last. The
#     documentation of `RunData.metrics` says that it is the value with the latest time.
# What happens: it is the value with the largest step, then with the latest time in milliseconds, then the largest.
#     A curve of mAP has the steps 0, 10 and 20, and the test is logged as `mAP` without a step, that is, as step 0: the
#     run keeps the 0.7 of step 20, not the 0.55 of the test. Of the error rates 0.1 and 0.05, which have one step and
#     one time, it keeps 0.1.
# Why it matters: runs are sorted by this number, and tables are made of it. The last number of validation stands there
#     for that of the test. Where results are loaded from files with one time for all, a corrected number replaces the
#     first one only if it is larger. Nothing is said. The history of the metric has all values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet mlflow-skinny==3.17.2 sqlalchemy==2.1.9 alembic==1.20.1
cd "$folder"
MLFLOW_DISABLE_TELEMETRY=true "$folder/env/bin/python" - <<'PYTHON'
import logging

import mlflow

logging.getLogger("mlflow").setLevel(logging.ERROR)
print("mlflow", mlflow.__version__)
mlflow.set_tracking_uri("sqlite:///runs.db")
client = mlflow.MlflowClient()
with mlflow.start_run() as run:
    for step, value in ((0, 0.5), (10, 0.6), (20, 0.7)):
        mlflow.log_metric("mAP", value, step=step)
    mlflow.log_metric("mAP", 0.55)
    for value in (0.1, 0.05):
        client.log_metric(run.info.run_id, "error rate", value, timestamp=1_700_000_000_000, step=0)
    for value in (0.7, 0.75):
        client.log_metric(run.info.run_id, "Rank-1", value, timestamp=1_700_000_000_000, step=0)
metrics = client.get_run(run.info.run_id).data.metrics
(found,) = client.search_runs(["0"])
history = {name: [entry.value for entry in client.get_metric_history(run.info.run_id, name)] for name in metrics}
print("metrics of the run:", metrics)
print("all values:", history)

assert metrics == found.data.metrics == {"mAP": 0.7, "error rate": 0.1, "Rank-1": 0.75}
assert sorted(history["mAP"]) == [0.5, 0.55, 0.6, 0.7]
assert sorted(history["error rate"]) == [0.05, 0.1]
assert client.search_runs(["0"], "metrics.mAP < 0.6") == []
print("as described")
PYTHON
