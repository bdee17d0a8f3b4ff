"""What `import pmlkit` offers, and what it costs."""

import json
import subprocess
import sys

import pmlkit


def in_a_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_needs_nothing_heavy():
    loaded = in_a_new_process("import json, sys, pmlkit; dir(pmlkit); print(json.dumps(sorted(sys.modules)))")
    assert not {"numpy", "scipy", "sklearn", "pandas"} & set(loaded)


def test_submodules_are_reachable():
    code = (
        "import json, pmlkit\n"
        "names = [pmlkit.metrics.ranking_loss, pmlkit.data.read, pmlkit.cleaning.clean, pmlkit.bench.run, "
        "pmlkit.methods.find_method, pmlkit.persistence.save, pmlkit.testing.pml_checks, pmlkit.exceptions.DataError]\n"
        "print(json.dumps([name.__name__ for name in names]))"
    )
    assert in_a_new_process(code)[0] == "ranking_loss"


def test_dir_shows_the_public_names_and_only_them():
    shown = dir(pmlkit)
    assert {"ClearPML", "clean", "make_classifier", "metrics", "data", "cleaning", "bench"} <= set(shown)
    assert set(pmlkit.__all__) <= set(shown)
    assert all(hasattr(pmlkit, name) for name in shown)
    assert not [name for name in shown if name.startswith("_") and name != "__version__"]
