from pathlib import Path

from rehearsal.run.ops_destroy import destroy

LASTS_A_SECOND = "import time\ntime.sleep(1)\n"


def test_a_kill_that_came_after_the_end_comes_before_it_the_next_time(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "ops").mkdir(parents=True)
    (project / "ops" / "__main__.py").write_text(LASTS_A_SECOND)

    def rest(kills: list[float]) -> list[float]:
        return list(destroy("dev", project, {}, tmp_path, kills=kills, echo=lambda _: None))

    late = rest([0.1, 30.0, 20.0])

    assert len(late) == 2, "the kill after 0.1 s has been; the others came after the end"
    assert rest(late) == []
