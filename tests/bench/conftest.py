import pytest

from pmlkit.bench import Plan
from pmlkit.bench.evaluation import close_sandbox
from pmlkit.data import make_pml, write


@pytest.fixture(autouse=True)
def fresh_sandbox():
    """End the process of `run_cell`: it would keep open the pipes of a browser that runs, which could not end then."""
    yield
    close_sandbox()


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    """A file of 60 rows whose labels are the truth."""
    path = tmp_path_factory.mktemp("data") / "small.npz"
    data = make_pml(60, 6, 4, random_state=0)
    write(data.replace(Y=data.truth), path)
    return path


@pytest.fixture(scope="session")
def noisy_file(tmp_path_factory):
    """A file of 50 rows with candidates of its own."""
    path = tmp_path_factory.mktemp("data") / "noisy.npz"
    write(make_pml(50, 5, 4, random_state=1), path)
    return path


@pytest.fixture
def fast_plan(small_file):
    """Make a plan of methods from `bench_methods`, on the small file."""

    def make(*methods, **options):
        names = [
            f"bench_methods:{m}" if isinstance(m, str) else m | {"name": f"bench_methods:{m['name']}"} for m in methods
        ]
        return Plan([small_file], names or ["bench_methods:Fast"], **({"noise": [0.5], "repeats": 2} | options))

    return make
