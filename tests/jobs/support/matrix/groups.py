"""Groups of workers of one run: started as Ray Train and the supervisor start them, and ended with their first end."""

from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from typing_extensions import Self

from tests.jobs.support.matrix.training import Plan, run_of, train
from tests.jobs.support.together import start
from tests.support.waiting import PATIENCE_SECONDS, wait_until

WORKERS: Final = {"plain": 1, "ddp": 2, "fsdp": 2}


class Group:
    """The processes of a group's workers, in the order of ranks."""

    def __init__(self, storage: Path, number: int, plan: Plan) -> None:
        context = start(WORKERS[plan.wrapper], train, storage / f"meeting-{number}", storage, plan)
        self.workers: list[BaseProcess] = context.processes

    def end(self) -> list[int | None]:
        """Wait until all workers are done or one has failed; kill the others then; return all exit codes."""
        running = {worker.sentinel: worker for worker in self.workers}
        while running:
            ended = wait(list(running), PATIENCE_SECONDS)
            assert ended, "no worker ends"
            failed = [running.pop(each).exitcode != 0 for each in ended if isinstance(each, int)]
            if any(failed):
                break
        self.kill(self.workers)
        return [worker.exitcode for worker in self.workers]

    def end_alone(self) -> list[int | None]:
        """Wait until each worker has ended by itself; return their exit codes."""
        for worker in self.workers:
            worker.join(PATIENCE_SECONDS)
        return [worker.exitcode for worker in self.workers]

    def wait_for_freeze(self, rank: int) -> BaseProcess:
        """Wait until a worker has frozen, and kill the others; return the frozen one."""
        frozen = self.workers[rank]
        stat = Path(f"/proc/{frozen.pid}/stat")
        wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "the freezing of a worker")
        self.kill([worker for worker in self.workers if worker is not frozen])
        return frozen

    @staticmethod
    def kill(workers: list[BaseProcess]) -> None:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()


class Groups:
    """The groups of one run, one after the other; kills those that a failing test leaves."""

    def __init__(self, storage: Path) -> None:
        self.storage = storage
        self._started: list[Group] = []
        run_of(storage).begin({})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for group in self._started:
            Group.kill(group.workers)

    def start(self, plan: Plan) -> Group:
        self._started.append(Group(self.storage, len(self._started) + 1, plan))
        return self._started[-1]
