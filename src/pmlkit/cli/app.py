"""The app: all commands, their help and their examples."""

from collections.abc import Callable
from typing import Annotated

import typer

from pmlkit.cli.audit_command import audit
from pmlkit.cli.bench_command import bench, report
from pmlkit.cli.clean_command import clean
from pmlkit.cli.data_commands import convert, info, noise
from pmlkit.cli.demo_command import demo
from pmlkit.cli.errors import Commands
from pmlkit.cli.methods_command import methods
from pmlkit.cli.model_commands import evaluate, fit, predict
from pmlkit.cli.params import expand
from pmlkit.cli.reproduce_command import reproduce
from pmlkit.cli.review_command import apply, export, import_answers, review

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [cyan]pmlkit demo[/]. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted, 143 terminated.",
)

_START, _REVIEW, _DATA = "Start here", "Asking people", "Data sets"
_MODELS, _BENCH = "Models", "Benchmarks"
_COMMANDS: tuple[tuple[Callable[..., None], str, tuple[str, ...]], ...] = (
    (demo, _START, ("pmlkit demo", "pmlkit demo --rows 5000 --seed 7 --out /tmp/strips")),
    (methods, _START, ("pmlkit methods", "pmlkit methods PMLLFC", "pmlkit methods --json")),
    (
        clean,
        _START,
        (
            "pmlkit clean posts.csv --labels tags --sep ';' --text body -o cleaned.csv --report report.html",
            "pmlkit clean photos.csv --labels 'tag_*' --images file=photos --dry-run --log removed.csv",
        ),
    ),
    (audit, _REVIEW, ("pmlkit audit posts.csv --labels tags --sep ';' --text body --answers answers.csv",)),
    (
        review,
        _REVIEW,
        (
            "pmlkit review posts.csv --labels tags --text body",
            "pmlkit review posts.csv --labels tags --text body --answers tags.sqlite --no-browser",
        ),
    ),
    (
        apply,
        _REVIEW,
        ("pmlkit apply review.sqlite posts.csv --labels tags --text body -o cleaned.csv",),
    ),
    (
        export,
        _REVIEW,
        ("pmlkit export posts.csv --labels tags --text body --to label-studio -o tasks.json",),
    ),
    (
        import_answers,
        _REVIEW,
        ("pmlkit import-answers export.json --from label-studio -o answers.csv",),
    ),
    (
        info,
        _DATA,
        (
            "pmlkit info pmlkit-demo/demo.npz",
            "pmlkit info posts.csv --labels tags --sep ';' --id post_id",
            "pmlkit info model.skops",
        ),
    ),
    (
        convert,
        _DATA,
        (
            "pmlkit convert yeast.arff yeast.npz --labels yeast.xml",
            "pmlkit convert posts.csv posts.parquet --labels 'tag_*'",
        ),
    ),
    (
        noise,
        _DATA,
        (
            "pmlkit noise clean.npz noisy.npz --ratio 0.5",
            "pmlkit noise clean.npz noisy.npz --ratio 1 --kind confusable --seed 3",
        ),
    ),
    (
        fit,
        _MODELS,
        (
            "pmlkit fit pmlkit-demo/demo.npz -o model.skops",
            "pmlkit fit posts.csv --labels 'tag_*' -m PMLLFC -p fit_intercept=true -o posts.skops",
        ),
    ),
    (
        predict,
        _MODELS,
        ("pmlkit predict model.skops new.csv -o predictions.csv", "pmlkit predict model.skops new.csv --scores | head"),
    ),
    (
        evaluate,
        _MODELS,
        (
            "pmlkit evaluate model.skops test.npz",
            "pmlkit evaluate model.skops test.csv --labels 'tag_*' --option truth='true_*'",
            "pmlkit evaluate posts.skops checked.csv --option truth=right_tags --sep ';'",
        ),
    ),
    (
        bench,
        _BENCH,
        (
            "pmlkit bench --data digit-strips --methods PMLLFC,MLkNN --noise 0.5,1 --repeats 3",
            "pmlkit bench --data scene --data enron --noise 0.1,0.5,1,2 --jobs 2 --out results.sqlite",
            "pmlkit bench plan.toml --jobs 2",
        ),
    ),
    (
        report,
        _BENCH,
        (
            "pmlkit report results.sqlite -o report.html",
            "pmlkit report results.sqlite --latex -o tables.tex",
            "pmlkit report results.sqlite --csv | diff means.csv -",
        ),
    ),
    (
        reproduce,
        _BENCH,
        (
            "pmlkit reproduce --quick --embedded",
            "pmlkit reproduce --quick --jobs 2",
            "pmlkit reproduce --jobs 2 --out reproduction",
            "pmlkit reproduce pml-lc --quick",
        ),
    ),
)


def _examples(lines: tuple[str, ...]) -> str:
    return "\n".join(["[bold]Examples[/]", *(f"  [cyan]{line}[/]" for line in lines)])


def _show_version(value: bool) -> None:
    if value:
        from pmlkit import __version__

        typer.echo(f"pmlkit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _pmlkit(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Learn from candidate labels: find the wrong ones, and train models that they do not mislead."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _function, _panel, _lines in _COMMANDS:
    app.command(_function.__name__.replace("_", "-"), rich_help_panel=_panel, epilog=_examples(_lines))(
        expand(_function)
    )
