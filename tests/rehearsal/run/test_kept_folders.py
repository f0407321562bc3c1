"""What the CDK CLI keeps beyond a rehearsal."""

from pathlib import Path

from rehearsal.run.cdk import kept_folders


def test_what_is_kept_is_that_of_the_lock_files_alone(tmp_path: Path) -> None:
    (tmp_path / "of-earlier-locks" / "jsii").mkdir(parents=True)
    kept = kept_folders(tmp_path)
    Path(kept["JSII_RUNTIME_PACKAGE_CACHE_ROOT"], "aws-cdk-lib").mkdir(parents=True)
    assert kept_folders(tmp_path) == kept
    (folder,) = tmp_path.iterdir()
    assert {Path(each).parent for each in kept.values()} == {folder}
    assert (folder / "jsii" / "aws-cdk-lib").is_dir()
