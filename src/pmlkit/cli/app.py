"""The app: all commands, in groups, with their examples."""

from collections.abc import Callable

import typer

from pmlkit.cli.bench_commands import bench, report, reproduce
from pmlkit.cli.clean_command import clean
from pmlkit.cli.data_commands import convert, info, noise
from pmlkit.cli.demo_command import demo
from pmlkit.cli.model_commands import evaluate, fit, methods, predict
from pmlkit.cli.options import expand
from pmlkit.cli.output import Commands, pmlkit
from pmlkit.cli.review_commands import apply, audit, export, import_answers, review

app = typer.Typer(
    cls=Commands,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [cyan]pmlkit demo[/]. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted, 143 terminated.",
)

app.callback(invoke_without_command=True)(pmlkit)

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, methods, clean),
    "Asking people": (audit, review, apply, export, import_answers),
    "Data sets": (info, convert, noise),
    "Models": (fit, predict, evaluate),
    "Benchmarks": (bench, report, reproduce),
}
EXAMPLES = """
pmlkit demo
pmlkit demo --rows 5000 --seed 7 --output /tmp/strips
pmlkit methods
pmlkit methods PMLLFC
pmlkit methods --json
pmlkit clean posts.csv --labels tags --sep ';' --text body -o cleaned.csv --report report.html
pmlkit clean photos.csv --labels 'tag_*' --images file=photos --dry-run --log removed.csv
pmlkit audit posts.csv --labels tags --sep ';' --text body --answers answers.csv
pmlkit review posts.csv --labels tags --text body
pmlkit review posts.csv --labels tags --text body --answers tags.sqlite --no-browser
pmlkit apply review.sqlite posts.csv --labels tags --text body -o cleaned.csv
pmlkit export posts.csv --labels tags --text body --to label-studio -o tasks.json
pmlkit import-answers export.json --from label-studio -o answers.csv
pmlkit info pmlkit-demo/demo.npz
pmlkit info posts.csv --labels tags --sep ';' --id post_id
pmlkit info model.skops
pmlkit convert yeast.arff yeast.npz --labels yeast.xml
pmlkit convert posts.csv posts.parquet --labels 'tag_*'
pmlkit noise clean.npz noisy.npz --ratio 0.5
pmlkit noise clean.npz noisy.npz --ratio 1 --kind confusable --seed 3
pmlkit fit pmlkit-demo/demo.npz -o model.skops
pmlkit fit posts.csv --labels 'tag_*' -m PMLLFC -p alpha=5 -o posts.skops
pmlkit predict model.skops new.csv -o predictions.csv
pmlkit predict model.skops new.csv --scores | head
pmlkit evaluate model.skops test.npz
pmlkit evaluate model.skops test.csv --labels 'tag_*' --option truth='true_*'
pmlkit evaluate posts.skops checked.csv --option truth=right_tags --sep ';'
pmlkit bench --data digit-strips --methods PMLLFC,MLkNN --noise 0.5,1 --repeats 3
pmlkit bench --data scene --data enron --noise 0.1,0.5,1,2 --jobs 2 --output results.sqlite
pmlkit bench plan.toml --jobs 2
pmlkit report results.sqlite -o report.html
pmlkit report results.sqlite --latex -o tables.tex
pmlkit report results.sqlite --csv | diff means.csv -
pmlkit reproduce --quick --embedded
pmlkit reproduce --quick --jobs 2
pmlkit reproduce --jobs 2 --output reproduction
pmlkit reproduce pml-lc --quick
"""


def _examples(command: str) -> str:
    lines = [line for line in EXAMPLES.splitlines() if line.split()[1:2] == [command]]
    return "\n".join(["[bold]Examples[/]", *(f"  [cyan]{line}[/]" for line in lines)])


def _paragraphs(doc: str) -> str:
    """Return a docstring with one line per paragraph, for a terminal of any width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in doc.split("\n\n"))


for _panel, _functions in _PANELS.items():
    for _function in _functions:
        _name = _function.__name__.replace("_", "-")
        _help = _paragraphs(_function.__doc__ or "")
        app.command(_name, rich_help_panel=_panel, help=_help, epilog=_examples(_name))(expand(_function))
