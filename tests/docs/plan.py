"""How code blocks of the pages are executed. One that is not in this table is what its language says, or fails a test.

Where a block would take hours, or names things of the reader, `{old: new}` says what is written in place of what.
"""

# ruff: noqa: E501
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shell:
    """Run in bash, in a folder of the world with a small graph: `fresh`, or with `finished` runs.

    mark    `slow` for more than some seconds, `ray` where a cluster is started
    after   the block that comes before it, in the same folder
    before  what is run before it
    then    what else is run, to see that the block has done something
    """

    replaced: dict[str, str] = field(default_factory=dict)
    world: str = "finished"
    mark: str = ""
    after: str = ""
    before: str = ""
    then: str = ""


@dataclass(frozen=True)
class Yaml:
    """Read as a config file, or by what is named."""

    by: str = "config"


@dataclass(frozen=True)
class Python:
    """Run where there are finished runs, and `data`, a graph of torch-geometric."""


@dataclass(frozen=True)
class Printed:
    """What a program prints, compared with it; `...` stands for lines that are left out."""

    by: str


@dataclass(frozen=True)
class Elsewhere:
    """Executed, or checked as far as can be where `reason` says why it cannot be executed here, by a test of its own."""

    by: str
    reason: str = ""


NO_KUBERNETES = "there is no Kubernetes here: objects and files are compared with the manifests, these with the models"
NO_DOCKER = "there is no Docker here: each step of the file is looked at, and its installation is made and used"
NO_AWS = "there is no account at AWS here: the file is read by Ray's own schema, the words by its command line"
NO_SLURM = "there is no Slurm here: the script runs for real under a stand-in of srun and scontrol"
NO_ROOT = "units are not installed on this machine: systemd itself verifies them where it is there"

LAX = "--set gate.probe_fall=1 --set gate.ranking_least=0 --set gate.ranking_fall=1 --set gate.alignment_least=-1"
SEARCH = 'docs/tune.md 1: pip install "gscl-scale[tune]"'

USUAL = {"yaml": Yaml(), "python": Python()}
PLAN = {
    "README.md 1: $ git clone <this repository> && cd gscl-scale": Shell(
        {"<this repository>": "{root} gscl-scale", "make demo": "make -o {venv}/.installed VENV={venv} demo"},
        world="fresh", mark="slow",
    ),
    "README.md 2: ┏━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━": Printed("README.md 1"),
    "README.md 3: $ source .venv/bin/activate": Shell(
        {"source .venv/bin/activate": "", "edges.csv": "edges.parquet {short}", "--id 1042": "--id user-12"}, world="fresh",
    ),
    "docs/cluster.md 1: docker build -f cluster/Dockerfile -t gscl-scale:0": Elsewhere(
        "tests/cluster/test_image.py::test_what_the_steps_read_is_there_and_is_sent_and_nothing_else_is", NO_DOCKER
    ),
    "docs/cluster.md 2: docker run --rm gscl-scale:0.1.0 gscl-scale run --": Elsewhere(
        "tests/cluster/test_image.py::test_an_ordinary_user_runs_it", NO_DOCKER
    ),
    "docs/cluster.md 3: ray job submit --address http://HEAD:8265 --workin": Elsewhere(
        "tests/ray/test_submit.py::test_the_documented_line_shows_progress_while_the_job_runs_and_exits_with_0"
    ),
    "docs/cluster.md 4: cluster/submit --address http://HEAD:8265 -- run -": Elsewhere(
        "tests/ray/test_submit.py::test_three_machines_share_the_tasks_and_two_processes_train"
    ),
    "docs/cluster_kubernetes.md 1: kubectl apply -f cluster/kuberay/shared.yaml": Elsewhere(
        "tests/cluster/test_manifests.py::test_every_manifest_has_only_fields_that_exist", NO_KUBERNETES
    ),
    "docs/cluster_kubernetes.md 2: kubectl get rayjobs": Elsewhere(
        "tests/cluster/test_docs.py::test_objects_that_kubectl_is_asked_for_are_those_of_the_manifests", NO_KUBERNETES
    ),
    "docs/cluster_kubernetes.md 3: kubectl apply -f cluster/kuberay/raycluster.yaml": Elsewhere(
        "tests/cluster/test_docs.py::test_objects_that_kubectl_is_asked_for_are_those_of_the_manifests", NO_KUBERNETES
    ),
    "docs/cluster_kubernetes.md 4: export RAY_AUTH_MODE=token": Elsewhere(
        "tests/cluster/test_docs.py::test_every_line_of_the_helper_is_one_that_it_takes", NO_KUBERNETES
    ),
    "docs/cluster_kubernetes.md 5: kubectl apply -f cluster/kuberay/cronjob.yaml": Elsewhere(
        "tests/cluster/test_nightly.py::test_it_creates_the_ray_job_of_the_file_and_ends_when_it_does", NO_KUBERNETES
    ),
    "docs/cluster_kubernetes.md 6: kubectl create job --from=cronjob/gscl-scale-night": Elsewhere(
        "tests/cluster/test_docs.py::test_objects_that_kubectl_is_asked_for_are_those_of_the_manifests", NO_KUBERNETES
    ),
    "docs/cluster_kubernetes.md 7: featureGates:": Yaml("the chart of KubeRay"),
    "docs/cluster_machines.md 1: pip install boto3": Elsewhere(
        "tests/cluster/test_docs.py::test_every_command_of_ray_is_one_that_it_has", NO_AWS
    ),
    "docs/cluster_machines.md 2: ray dashboard cluster/ray-autoscaler.yaml": Elsewhere(
        "tests/cluster/test_docs.py::test_every_command_of_ray_is_one_that_it_has", NO_AWS
    ),
    "docs/cluster_machines.md 3: sbatch cluster/slurm.sh gscl-scale run --config co": Elsewhere(
        "tests/ray/test_slurm.py::test_two_nodes_make_the_bytes_of_one_machine_and_nothing_is_left_running", NO_SLURM
    ),
    "docs/cluster_machines.md 4: sudo useradd --system gscl-scale": Elsewhere(
        "tests/cluster/test_systemd.py::test_systemd_takes_both_units", NO_ROOT
    ),
    "docs/reliability.md 1: $ make chaos # 220 faults": Shell({"make": "make -n -C {root}"}),
    "docs/security.md 1: $ make fuzz # 20,000 mutated inputs over all reade": Shell({"make": "make -n -C {root}"}),
    "docs/report.md 1: $ gscl-scale run --config configs/digits.yaml --ru": Shell(
        {"--config configs/digits.yaml --run runs/digits": "--config mine.yaml {short} --run runs/digits"}, world="fresh",
    ),
    "docs/report.md 2: $ gscl-scale run --config configs/digits.yaml --ru": Shell(
        {"--config configs/digits.yaml --run runs/wider --set model.width=512": "--config mine.yaml {short} --run runs/wider --set model.width=24"},
        world="fresh", after="docs/report.md 1: $ gscl-scale run --config configs/digits.yaml --ru", then="test -s wider.html", mark="slow",
    ),
    "docs/cluster_tutorial.md 1: gscl-scale run --config mine.yaml --run runs/on-ra": Shell(mark="ray"),
    "docs/code.md 1: graph -> rings -> shards -> batches -> model -> tr": Printed("the story"),
    "docs/compare.md 1: $ gscl-scale compare --config mine.yaml": Shell(
        {
            "compare --config mine.yaml\n": "compare --config mine.yaml {short}\n",
            "dgi,grace,gscl-listwise --set train.repeats=5": "dgi,gscl-listwise --set train.repeats=2 {short} --run runs/two",
        },
        world="fresh", mark="slow",
    ),
    "docs/compare.md 3: $ gscl-scale compare --config mine.yaml --methods": Elsewhere(
        "tests/ray/test_tune.py::test_methods_are_compared_with_the_best_of_as_many_trials_each_and_not_searched_again"
    ),
    "docs/own_method.md 1: [project]": Elsewhere(
        "tests/objectives/test_installed.py::test_the_method_of_the_page_is_a_row_and_a_training_from_the_shell"
    ),
    "docs/own_method.md 2: import torch": Elsewhere(
        "tests/objectives/test_installed.py::test_the_method_of_the_page_has_the_loss_that_it_says"
    ),
    "docs/own_method.md 3: $ pip install -e .": Elsewhere(
        "tests/objectives/test_installed.py::test_the_method_of_the_page_is_a_row_and_a_training_from_the_shell"
    ),
    "docs/own_method.md 4: embeddings = gscl_scale.fit(data, train__objective": Elsewhere(
        "tests/objectives/test_installed.py::test_the_method_of_the_page_trains_from_python"
    ),
    "docs/graphs_file.md 1: $ gscl-scale run edges.csv --nodes nodes.csv": Shell(
        {"run edges.csv": "ingest edges.parquet"}, world="fresh", then="test -s runs/edges/config.yaml",
    ),
    "docs/graphs_file.md 2: edges.csv: separator semicolon, header; edges from": Elsewhere(
        "tests/test_graph_file.py::test_what_is_recognized_is_printed_as_the_page_shows_it"
    ),
    "docs/graphs.md 1: 10,000,000 nodes and 110,000,000 edges take about": Printed("what ingest tells"),
    "docs/graphs_columns.md 1: $ gscl-scale ingest --config new.yaml --run runs/n": Shell(then="test -s new-embeddings/embeddings.parquet"),
    "docs/install.md 1: pip install gscl-scale": Shell({"pip install": "pip show"}),
    "docs/install.md 2: pip install 'gscl-scale[ray,cloud]'": Shell({"pip install 'gscl-scale[ray,cloud]'": "pip show ray obstore"}, mark="slow"),
    "docs/large.md 1: $ gscl-scale precompute --config new.yaml --run ru": Shell(mark="slow"),
    "docs/large.md 2: $ gscl-scale embed --config mine.yaml --graph runs": Shell(mark="slow"),
    "docs/large.md 3: $ gscl-scale bench rings --config configs/ogbn_arx": Shell(
        {
            "--config configs/ogbn_arxiv_structure.yaml --hops 4 --peer-hops 3": "--set graph.source=synthetic --set graph.preset=tiny --hops 2 --turns 1 --seconds 0.2 --only tools",
            "bench scale": "bench scale --edges 2e4 --workers 1",
            "bench embed": "bench embed --edges 2e4 --width 8",
            "bench neighbors": "bench neighbors --rows 3e3 --width 16",
        },
        mark="slow",
    ),
    "docs/large_plan.md 1: $ gscl-scale plan --config mine.yaml": Shell(mark="slow"),
    "docs/large_plan.md 2: $ gscl-scale plan --config configs/large.yaml --no": Elsewhere("tests/planning/test_docs.py::test_the_plans_of_the_page_are_those_of_today"),
    "docs/large_plan.md 3: 111,059,956 nodes, 1,615,685,872 edges, 128 featur": Elsewhere("tests/planning/test_docs.py::test_the_plans_of_the_page_are_those_of_today"),
    "docs/large_plan.md 4: $ gscl-scale plan --config configs/large.yaml --no": Elsewhere("tests/planning/test_docs.py::test_the_plans_of_the_page_are_those_of_today"),
    "docs/large_plan.md 5: 111,059,956 nodes, 1,615,685,872 edges, 128 featur": Elsewhere("tests/planning/test_docs.py::test_the_plans_of_the_page_are_those_of_today"),
    "docs/large_plan.md 6: $ gscl-scale plan --config configs/large.yaml --no": Elsewhere("tests/planning/test_docs.py::test_the_plans_of_the_page_are_those_of_today"),
    "docs/large_plan.md 7: 1,000,000,000 nodes, 10,000,000,000 edges, 128 fea": Elsewhere("tests/planning/test_docs.py::test_the_plans_of_the_page_are_those_of_today"),
    "docs/neighbors.md 1: $ gscl-scale neighbors runs/mine --id user-7 --id": Shell(),
    "docs/neighbors.md 2: $ gscl-scale neighbors runs/mine --ids some.csv --": Shell(),
    "docs/neighbors.md 3: $ pip install 'gscl-scale[index]'": Shell({"pip install 'gscl-scale[index]'": "pip show faiss-cpu"}, mark="slow"),
    "docs/neighbors.md 4: $ gscl-scale embed --config mine.yaml --out vector": Shell(mark="slow"),
    "docs/ray.md 2: export RAY_AUTH_MODE=token": Elsewhere("tests/ray/test_submit.py::test_with_the_token_only_the_cluster_is_joined"),
    "docs/ray_training.md 1: gscl-scale run --config FILE --run /shared/runs/NA": Shell(
        {"FILE": "mine.yaml", "/shared/runs/NAME": "$PWD/runs/ray", "train_workers=4": "train_workers=2", "worker_cpus=8": "worker_cpus=1", "worker_gpus=1": "worker_gpus=0 --set runtime.address=local"},
        mark="ray",
    ),
    "docs/ray_training.md 2: gscl-scale precompute --config FILE --run NAME": Shell(
        {"FILE": "mine.yaml", "NAME": "runs/torchrun", "--nproc-per-node 2": "--nproc-per-node 2 --master-port {port}"},
        mark="slow",
    ),
    "docs/retraining.md 1: gscl-scale retrain --config FILE --registry DIR": Shell(
        {"FILE": "mine.yaml", "DIR": "registry"}, mark="slow"
    ),
    "docs/retraining.md 2: gscl-scale registry list --registry DIR": Shell(
        {"DIR": "two-nights", "VERSION": "v000002"}, mark="slow",
        before="for file in mine.yaml new.yaml; do gscl-scale retrain --config $file --registry two-nights " + LAX + "; done",
    ),
    "docs/retraining_operation.md 1: export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY": Shell(
        {"KEY_ID=...": "KEY_ID=somebody", "ACCESS_KEY=...": "ACCESS_KEY=knows", "https://minio.example.com": "{s3}"},
        then="gscl-scale run --config mine.yaml --run s3://bucket/documented --set train.epochs=1", mark="slow",
    ),
    SEARCH: Shell(
        {"pip install \"gscl-scale[tune]\"": "pip show optuna", "--trials 50": "--trials 2 {short} --set runtime.address=local"}, world="fresh", mark="ray"
    ),
    "docs/tune.md 2: gscl-scale run --config runs/mine/best.yaml --run": Shell(
        {"best.yaml": "best.yaml --set train.epochs=1"}, world="fresh", mark="ray", after=SEARCH
    ),
    "docs/tune.md 3: model.width: [256, 512] # one of these": Yaml("the space of tune"),
}  # fmt: skip
