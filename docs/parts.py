"""Write docs/reference/parts.md, the files of each optional part by layer: `python docs/parts.py`.

A file belongs to a part if the file, or a folder that it is in, has the part's name.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
FILE: Final = _ROOT / "docs" / "reference" / "parts.md"
_INTRODUCTION: Final = """# Optional parts

`python docs/parts.py` generates this page from the names of files.
[CONTRIBUTING](../../CONTRIBUTING.md#add-a-part) says how to add a part.

A part has one name in every layer: a file belongs to it if the file, or a folder that it is in, has the part's name. A
registration is a file that may name every part: one list, table or stack of its layer. A test proves that no other file
of the product names a part. The last table lists the exceptions.
"""
LAYERS: Final = {
    "config/model": "model",
    "config/rules": "rules",
    "config/estimates": "costs",
    "config": "facts",
    "stacks": "stacks",
    "k8s_charts": "charts",
    "handlers": "handlers",
    "controllers": "controllers",
    "lifecycle_scripts": "scripts",
    "ops": "ops",
    "rehearsal": "rehearsal",
    "app.py": "app",
    "tests": "tests",
}
"""The layer of the files below each path. All but the tests are the product."""


@dataclass(frozen=True)
class Part:
    """An optional part: the name of its files and folders, its title, and its page in docs/.

    `keys` are its keys in an environment's file, and `words` the identifiers that mean it. If it is `within` another
    part, that part's files may name it.
    """

    name: str
    title: str
    page: str
    words: tuple[str, ...]
    keys: tuple[str, ...] = ()
    within: str = ""

    def owns(self, path: Path) -> bool:
        """Return whether a file belongs to the part."""
        return _has(path, self.name)

    def is_named_in(self, code: str) -> bool:
        """Return whether code has one of the words: alone, in a longer identifier, in capitals, or as a class."""
        forms = (form for word in self.words for form in (word, word.upper(), word.title().replace("_", "")))
        return bool(re.search(rf"(?<![A-Za-z0-9])({'|'.join(map(re.escape, forms))})(?![A-Za-z0-9])", code))


PARTS: Final = (
    Part(
        "monthly_budget",
        "Budget of a month",
        "operate/save-money.md",
        ("monthly_budget", "has_budget", "budget_tag", "budget_regions"),
        ("notifications.monthly_budget_usd",),
    ),
    Part("mlflow", "MLflow", "operate/track-experiments.md", ("mlflow", "tracking_server"), ("mlflow",)),
    Part(
        "container_insights",
        "Container Insights",
        "operate/observe-aws.md",
        ("container_insights",),
        ("observability.container_insights",),
    ),
    Part(
        "hyperpod_observability",
        "HyperPod observability with Grafana",
        "operate/observe-aws.md",
        ("hyperpod_observability", "observability.hyperpod", "wanted.hyperpod", "managed_grafana", "grafana_regions"),
        ("observability.hyperpod", "observability.hyperpod.grafana"),
    ),
    Part(
        "in_cluster",
        "In-cluster observability",
        "operate/observe.md",
        ("in_cluster",),
        ("observability.in_cluster",),
    ),
    Part(
        "alertmanager",
        "Alertmanager",
        "operate/observe.md",
        ("alertmanager", "has_receivers", "observability.alerts"),
        ("observability.alerts",),
        within="in_cluster",
    ),
    Part(
        "gpu_exporter",
        "GPU exporter",
        "operate/gpus.md",
        ("gpu_exporter", "observed_gpu_groups", "dcgm_exporter"),
        within="in_cluster",
    ),
    Part(
        "efa_exporter",
        "EFA exporter",
        "operate/observe.md",
        ("efa_exporter", "observed_efa_groups"),
        within="in_cluster",
    ),
    Part(
        "memory_tier",
        "Memory tier",
        "operate/checkpoints.md",
        ("memory_tier", "tiered_storage", "memory_percent", "tier_percent"),
        ("hyperpod.tiered_storage",),
    ),
    Part("pytorchjob", "PyTorchJobs", "operate/pytorchjobs.md", ("pytorchjob", "pytorchjobs", "PyTorchJobs")),
    Part("delivery", "Delivery by GitHub's workflows", "operate/deliver.md", ("delivery",)),
    Part("mirror", "Mirror of images and charts", "operate/networks.md", ("image_registry",), ("image_registry",)),
    Part("viewers", "Viewers", "operate/permissions.md", ("viewers",), ("access.viewers",)),
)

REGISTRATIONS: Final = (
    # The mapping that holds the part's key, and what others ask of the environment.
    "config/model/*.py",
    # The rules; the estimate and its prices; names of resources and their tags; the policy of the company's key.
    *("config/rules/__init__.py", "config/estimates/*", "config/naming.py", "config/key_policy.py"),
    # A stack wires its constructs; the list of what waits for what.
    *("stacks/*/stack.py", "stacks/dependencies.yaml"),
    # The request of CreateCluster, and which of its properties a key is.
    *("stacks/hyperpod/cluster.py", "ops/environment/updates.py"),
    # The charts of an environment; the connections that policies allow; names in Kubernetes.
    *("k8s_charts/ray_objects.py", "k8s_charts/shared/flows.py", "k8s_charts/shared/names.py"),
    # What only a deployment knows of the charts.
    "ops/render/manifests.py",
    # Public images, and their pins; the variables of Ray's pods.
    *("k8s_charts/helm/images.py", "config/facts/versions.py", "k8s_charts/ray/from_environment.py"),
    # The page of the connections, and the probes that try them; the roles of people; what the review prices.
    *("ops/environment/flows.py", "ops/isolation/plan.py", "ops/policy/roles.py", "ops/review/cost.py"),
    # The files that people must read in a review.
    "ops/review/checkouts/content.py",
    # What drift detection reads, and what CloudFormation names; the checks of an account.
    *("ops/policy/operating.py", "ops/policy/generated.py", "ops/preflight/checks.py"),
    # The lists of commands, of pages that they serve, and of kinds of runs with their operators.
    *("ops/commands/__init__.py", "ops/watch/page.py", "ops/jobs/kind.py", "ops/jobs/operators/runs.py"),
    # What `ops new` copies.
    *("ops/environment/new_environment.yaml", "ops/environment/examples/*.yaml"),
)
"""The places that may name every part: one list, table or stack each."""

EXCEPTIONS: Final[dict[str, tuple[str, str]]] = {
    "config/rules/add_ons/observability.py": (
        "alertmanager container_insights hyperpod_observability in_cluster",
        "V99 holds these parts against each other",
    ),
    "config/rules/network.py": ("mirror", "V40 is one rule about all that a closed network needs"),
    "config/rules/slurm/rules.py": ("memory_tier", "V90 lists what Slurm's environments lack"),
    "k8s_charts/controllers/job_supervisor.py": ("pytorchjob", "a Role lists every kind of object"),
    "k8s_charts/helm/hyperpod_dependencies.py": ("mlflow", "a sub-chart of HyperPod's chart has this name"),
    "k8s_charts/ray/viewers.py": ("pytorchjob", "a Role lists every kind of object"),
    "ops/commands/operate/job.py": ("pytorchjob", "help texts of `ops job submit` list the kinds of runs"),
    "ops/commands/operate/status.py": ("in_cluster", "`ops dashboard` also serves its pages"),
    "ops/cost/live.py": ("mlflow", "counts what an account has by type of resource"),
    "ops/environment/cluster_config.py": ("memory_tier", "reads a request of CreateCluster, which has it"),
    "ops/environment/observed.py": ("in_cluster", "writes the tables of the part's page"),
    "ops/errors.py": ("viewers", "a refusal names the key that lists the allowed roles"),
    "ops/jobs/run.py": ("pytorchjob", "what a request asks for decides its kind"),
    "ops/readiness/kubeflow.py": ("pytorchjob", "lists Kubeflow's definitions"),
    "ops/review/cloudformation/risks/concepts.py": ("delivery", "means properties of AWS that begin so"),
    "ops/smoke/gpu_health.py": ("gpu_exporter in_cluster", "asks Prometheus for the health of GPUs"),
    "rehearsal/stand_ins/charts/HyperPodHelmChart/templates/kubeflow.yaml": (
        "pytorchjob",
        "stands for HyperPod's chart",
    ),
    "rehearsal/stand_ins/charts/HyperPodHelmChart/values.schema.json": ("mlflow", "stands for HyperPod's chart"),
    "stacks/delivery/permissions.py": ("monthly_budget", "drift detection reads a budget only where one is"),
    "stacks/eks/access_entries.py": ("viewers", "makes the entries of each list of `access`"),
}
"""File → the parts that it names, although it is neither theirs nor a registration, and why."""


def _has(path: Path, *names: str) -> bool:
    return any(name.split(".")[0].removeprefix("test_") in names for name in path.parts)


@cache
def files() -> tuple[Path, ...]:
    """Return the files of the product and of its tests, relative to the repository, also those not yet added to git."""
    argv = ["git", "-C", str(_ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *LAYERS]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted(path for name in set(listed) - {""} if (_ROOT / (path := Path(name))).is_file()))


def layer(path: Path) -> str:
    """Return the layer of a file: that of the longest path of LAYERS."""
    return next(LAYERS[str(place)] for place in (path, *path.parents) if str(place) in LAYERS)


@cache
def code(path: Path) -> str:
    """Return a file's code without its comments and, in Python, without docstrings."""
    try:
        text = (_ROOT / path).read_text()
    except UnicodeDecodeError:
        return ""
    if path.suffix == ".py":
        return ast.unparse(_without_docstrings(ast.parse(text)))
    return re.sub(r"(^|\s)#.*$", "", text, flags=re.MULTILINE)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not _is_text(line)] or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def is_registration(path: Path) -> bool:
    """Return whether a file may name every part."""
    return any(path.match(pattern) for pattern in REGISTRATIONS)


def named(part: Part) -> set[Path]:
    """Return the product's files that name the part without belonging to it."""
    others = (path for path in files() if layer(path) != "tests" and not _has(path, part.name, part.within))
    return {path for path in others if part.is_named_in(code(path))}


def exceptions() -> dict[str, set[str]]:
    """Return the product's files that name parts, and are neither theirs nor registrations, with these parts."""
    found: dict[str, set[str]] = {}
    for part in PARTS:
        for path in named(part):
            if not is_registration(path):
                found.setdefault(str(path), set()).add(part.name)
    return found


def page() -> str:
    """Return the page: a table for each part, and the table of exceptions."""
    return "\n".join([_INTRODUCTION, *(line for part in PARTS for line in _section(part)), *_exceptions()]) + "\n"


def _section(part: Part) -> Iterator[str]:
    keys = ", ".join(f"`{key}`" for key in part.keys) or "none"
    within = f" Within `{part.within}`, whose files may name it." if part.within else ""
    name, page = f"Name: `{part.name}`.{within}", f"Page: [{part.page}](../{part.page})."
    yield from (f"## {part.title}", "", f"{name} Keys: {keys}. {page}", "")
    yield from ("| layer | its files | registered in |", "|---|---|---|")
    own = {path for path in files() if part.owns(path)}
    registered = {path for path in named(part) if is_registration(path)}
    for each in dict.fromkeys(LAYERS.values()):
        mine, theirs = ({path for path in paths if layer(path) == each} for paths in (own, registered))
        if mine or theirs:
            yield f"| {each} | {_listed(part, mine)} | {_listed(part, theirs)} |"
    yield ""


def _listed(part: Part, paths: set[Path]) -> str:
    """Return the names of the files; a folder of the part is named instead of its files."""
    folders = (next((place for place in reversed(path.parents) if place.name == part.name), None) for path in paths)
    names = {f"{folder}/" if folder else str(path) for folder, path in zip(folders, paths, strict=True)}
    return ", ".join(f"`{name}`" for name in sorted(names))


def _exceptions() -> Iterator[str]:
    yield from ("## Exceptions", "", "| file | names | because |", "|---|---|---|")
    for file, (parts, reason) in sorted(EXCEPTIONS.items()):
        yield f"| `{file}` | {', '.join(parts.split())} | {reason} |"


if __name__ == "__main__":
    FILE.write_text(page())
