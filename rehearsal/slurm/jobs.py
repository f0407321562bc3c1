"""Prove on real Slurm what the scripts of ray_jobs/slurm/ do, with a stand-in for torchrun: PyTorch is not needed."""

import shutil
from collections.abc import Callable
from typing import Final

from embedded_account.machine.processes import ProcessError
from rehearsal.paths import REPOSITORY
from rehearsal.slurm import stand_ins
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.configuration import ConfiguredGroup
from rehearsal.slurm.programs import Programs

SCRIPTS: Final = REPOSITORY / "ray_jobs" / "slurm"
_FAILS_FIRST: Final = "[ $SLURM_RESTART_COUNT ] || exit 1"
# HyperPod's plugin for srun runs a failed step again on the replaced node. The stand-in only takes the option.
_SRUN: Final = """#!/bin/bash
if [[ $* == --help ]]; then
  {srun} --help && echo "      --auto-resume=0|1       (stand-in)"
  exit
fi
words=()
for word; do
  if [[ $word == --auto-resume=1 ]]; then
    echo "$SLURM_JOB_ID" >>{asked}
  else
    words+=("$word")
  fi
done
exec {srun} "${{words[@]}}"
"""


class Jobs:
    """The scripts in a directory of a running cluster, as a user copies them."""

    def __init__(self, cluster: SlurmCluster, programs: Programs, torchrun: str) -> None:
        """Copy the scripts; `torchrun` is what bash runs in torchrun's place."""
        self._cluster = cluster
        self.directory = cluster.directory / "jobs"
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(SCRIPTS, self.directory)
        self._environment = self.directory / "environment"
        self._asked = self.directory / "auto-resume"
        programs_of_jobs = self._environment / "bin"
        srun = _SRUN.format(srun=programs.root / "usr/bin/srun", asked=self._asked)
        started = f'#!/bin/bash\necho "torchrun $*"\n{torchrun}\n'
        stand_ins.write_programs(programs_of_jobs, {"srun": srun, "torchrun": started})
        (programs_of_jobs / "activate").write_text(f"PATH={programs_of_jobs}:$PATH\n")

    def submit(self, *words: str, **variables: str) -> int:
        """Submit train_ddp.sbatch with more words before it, and these variables; return the job's number."""
        variables["PYTHON_ENVIRONMENT"] = str(self._environment)
        options = [f"{name}={value}" for name, value in variables.items()]
        where = ("--parsable", f"--chdir={self.directory}", "--output=job.out", *words)
        return int(self._cluster.run("env", *options, "sbatch", *where, str(self.directory / "train_ddp.sbatch")))

    @property
    def output(self) -> str:
        """Return what the jobs printed: nothing until a node has created the file, which is after RUNNING."""
        printed = self.directory / "job.out"
        return printed.read_text() if printed.exists() else ""

    @property
    def asked(self) -> list[int]:
        """Return the job of each step that was started with --auto-resume=1."""
        return [int(line) for line in self._asked.read_text().split()] if self._asked.exists() else []


def prove(cluster: SlurmCluster, programs: Programs, see: Callable[[str], None]) -> None:
    """Run a training that fails once, and tell what became of it. Raises ProcessError unless it ends well."""
    group: ConfiguredGroup | None = next((each for each in cluster.groups if each.partition and each.count), None)
    if group is None:
        return
    jobs = Jobs(cluster, programs, _FAILS_FIRST)
    number = jobs.submit(f"--partition={group.partition}", f"--nodes={group.count}")
    cluster.wait_for(number, "COMPLETED", "FAILED")
    if cluster.state_of(number) != "COMPLETED" or "start 1: node 0" not in jobs.output or jobs.asked != [number] * 2:
        raise ProcessError(
            f"the job of ray_jobs/slurm/ did not end in its second start: {jobs.output!r}. "
            f"Fix: read the logs in {cluster.directory}"
        )
    see(f"ray_jobs/slurm/train_ddp.sbatch: job {number} failed, was requeued and ended; torchrun is a stand-in")
    see("srun --auto-resume=1: a stand-in takes the option; HyperPod's plugin is not shown")
