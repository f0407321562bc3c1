"""The story: one environment is deployed, watched, changed and destroyed on this machine."""

from rich.console import Console
from rich.markup import escape

import config
from rehearsal.story import verdict
from rehearsal.story.cdk import CommandError
from rehearsal.story.cluster import TimedOutError
from rehearsal.story.steps import RehearsalError, Story


def tell(environment_name: str, console: Console, *, keep: bool) -> int:
    """Tell the whole story; return the exit code (0: everything was as it should be)."""
    environment = config.load(environment_name)
    story = Story(environment, console)
    told = False
    try:
        with story.watch.interrupting():
            _steps(story, console, keep=keep)
        told = True
    except (RehearsalError, CommandError, TimedOutError) as failure:
        line = f"[bold red]The rehearsal of {environment_name} failed:[/] {escape(str(failure))}"
        console.print(line, highlight=False, soft_wrap=True)
        return 1
    finally:
        if not (keep and told):
            story.supervisor.stop_all(grace=20)
        story.report()
    return 0


def _steps(story: Story, console: Console, *, keep: bool) -> None:
    """The order of things; with `keep` it ends when the RayClusters are ready."""
    story.make_project()
    story.begin_synthesis()
    story.start_account(keep=keep)
    story.what_exists()
    story.bootstrap()
    story.first_deployment()
    story.nodes_join()
    story.ops_wait()
    story.ray_is_ready()
    story.images_are_copies()
    if keep:
        story.timeline()
        story.say_how_to_look()
        return
    story.diff_is_clean()
    story.grow()
    story.ops_wait()
    story.ray_is_ready()
    story.ray_stack_alone()
    story.ray_is_ready()
    story.destroy()
    _judge(story, console, protected=story.environment.protect)
    if story.environment.protect:
        story.deployed_again()
        _judge(story, console, protected=False)
    story.existing_is_untouched()
    story.timeline()


def _judge(story: Story, console: Console, *, protected: bool) -> None:
    """Show what is left; Broken when something is that nobody owns."""
    leftovers = story.take_inventory(protected)
    verdict.show(console, leftovers, story.charts)
    if not leftovers.clean:
        raise RehearsalError("something is left that nobody owns; the table above names it")
