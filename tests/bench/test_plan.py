import dataclasses
import importlib
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmlkit.bench.cells
from pmlkit.bench import Plan, PlanError, cells, parse_plan, plan_text, read_plan
from pmlkit.bench.cells import _SHARED_CODE, _with_imports, code_fingerprint, expand, git_revision
from pmlkit.bench.plan_entries import Tune
from pmlkit.data import read, write
from pmlkit.exceptions import DataError

PAPER = """
# The ablation of the paper.
repeats = 3
noise = ["own", 0.5]  # 0.5 is the paper's 50 %
data = [
    "scene",
    {name = "YeastBP", noise = ["own"]},
]

[[methods]]
name = "PMLLFC"

[[methods]]
name = "PMLLFC"
label = "oF"
params = {similarity = "features", random_state = "none"}

[[methods]]
name = "pml-lfc"
grid = {alpha = [1, 10], beta = [0.1, 1]}

[[methods]]
name = "MLkNN"
label = "neighbours"
grid = {n_neighbors = [5, 10]}
"""


def test_a_plan_names_variants_after_what_differs():
    plan = parse_plan(PAPER)
    labels = [variant.label for variant in plan.variants()]
    assert labels == [
        "PMLLFC",
        "oF",
        "PMLLFC(alpha=1, beta=0.1)",
        "PMLLFC(alpha=1, beta=1)",
        "PMLLFC(alpha=10, beta=0.1)",
        "PMLLFC(alpha=10, beta=1)",
        "neighbours(n_neighbors=5)",
        "neighbours(n_neighbors=10)",
    ]
    assert plan.variants()[1].params == {"similarity": "features", "random_state": None}
    assert [variant.shown_params for variant in plan.variants()[:3:2]] == ["{}", '{"alpha": 1, "beta": 0.1}']
    assert plan.data[1].noise == ("own",)


def test_a_tuned_grid_is_one_variant():
    plan = parse_plan("tune = true" + PAPER)
    assert [variant.label for variant in plan.variants()] == ["PMLLFC", "oF", "PMLLFC(tuned)", "neighbours(tuned)"]
    assert plan.variants()[2].shown_params == '{"alpha": [1, 10], "beta": [0.1, 1]}'


def test_plan_text_is_read_back():
    plan = parse_plan("tune = {folds = 2}" + PAPER)
    assert parse_plan(plan_text(plan)) == plan


values = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(
    st.dictionaries(st.sampled_from(["n_neighbors", "smoothing"]), st.integers(1, 50), max_size=2),
    st.text(min_size=1),
    st.lists(st.floats(0, 100), min_size=1, max_size=3, unique=True),
    st.dictionaries(st.text(min_size=1).filter(lambda key: key not in ("name", "path", "noise", "kinds")), values),
)
def test_any_plan_is_read_back(params, label, noise, options):
    options = {key: value for key, value in options.items() if value is not None}
    plan = Plan(
        [{"name": label, "path": "x.csv", **options}],
        [{"name": "MLkNN", "params": params, "label": label}],
        noise=[*noise, "own"],
    )
    assert parse_plan(plan_text(plan)) == plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("repeats =", "repaets ="), "p.toml, line 3: a plan has no 'repaets'. Did you mean 'repeats'?"),
        (('name = "MLkNN"', 'name = "os:abort"'), "p.toml, line 23: 'os:abort' is not the class of an estimator"),
        (('name = "MLkNN"', 'name = "MLkN"'), "p.toml, line 23: There is no method 'MLkN'. Did you mean 'MLkNN'?"),
        (('label = "oF"', 'lable = "oF"'), "p.toml, line 15: A method has no 'lable'. Did you mean 'label'?"),
        (("n_neighbors", "n_neighbours"), "p.toml, line 25: MLkNN has no parameter 'n_neighbours'. Did you mean"),
        (("repeats = 3", "repeats = 0"), "p.toml, line 3: repeats must be a whole number of at least 1 and at most"),
        (('"own", 0.5', '"own", -1'), "p.toml, line 4: noise is false candidates per true label"),
        (("alpha = [1, 10]", "alpha = 1"), "p.toml, line 20: grid needs a list of values for 'alpha', got 1"),
        (("alpha = [1, 10]", "alpha = [1, -1]"), "p.toml, line 20: The 'alpha' parameter of PMLLFC must be"),
        (('name = "YeastBP", noise', 'name = "YeastBP", nosie'), "p.toml, line 7: A named data set has no 'nosie'."),
        (('"scene",', '"scene", "scene",'), "p.toml, line 6: 'scene' is there twice"),
        (('label = "oF"', 'label = "PMLLFC"'), "'PMLLFC' is there twice: give one of them another label"),
        (("repeats = 3", "repeats = = 3"), "p.toml, line 3: invalid value"),
        (("repeats = 3", "tune = {fold = 3}"), "p.toml, line 3: tune has no 'fold'. Did you mean 'folds'?"),
        (("repeats = 3", 'kinds = ["unifrom"]'), "p.toml, line 3: There is no noise kind 'unifrom'. Did you mean"),
    ],
)
def test_a_typo_is_named_with_its_line(change, message, tmp_path):
    assert change[0] in PAPER
    (tmp_path / "p.toml").write_text(PAPER.replace(*change, 1))
    with pytest.raises(PlanError) as error:
        read_plan(tmp_path / "p.toml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data = " + "[" * 5000 + "]" * 5000, "^p.toml: its lists and tables are nested too deeply for a plan"),
        (f"repeats = {'9' * 5000}", "^p.toml: it has a number of more than 4,300 digits"),
        (f'data = ["scene"]\nrepeats = {"9" * 4000}', "^p.toml, line 2: repeats must .* got 9{40}…"),
        ('data = ["scene"]\n"a.b" = 3', "^p.toml, line 2: a plan has no 'a.b'"),
        ('data = ["scene"]\n\na.b = 3', "^p.toml, line 3: a plan has no 'a'"),
        ("data = [\"scene\"]\n['x y']\nz = 3", "^p.toml, line 2: a plan has no 'x y'"),
    ],
    ids=["deep", "digits", "repeats", "quoted key", "dotted key", "quoted header"],
)
def test_hostile_toml_gets_one_sentence(text, message):
    with pytest.raises(PlanError, match=message) as error:
        parse_plan(text, name="p.toml")
    assert len(str(error.value)) < 250


def test_a_plan_that_is_no_text_or_no_file(tmp_path):
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(tmp_path / "p.toml")
    with pytest.raises(PlanError, match="There is no plan"):
        read_plan(tmp_path / "absent.toml")
    with pytest.raises(PlanError, match="needs data"):
        parse_plan("repeats = 1")


@pytest.mark.parametrize(
    ("options", "says", "section", "word"),
    [
        ({"data": []}, "empty", "data", "data"),
        ({"methods": []}, "empty", "methods", "methods"),
        ({"data": "scene"}, "must be a list", "data", "data"),
        ({"tune": True}, "nothing to tune", "tune", "tune"),
        ({"tune": Tune, "methods": ["MLkNN"]}, "must be true", "tune", "tune"),
        ({"noise": [0.5, 0.5]}, "", "noise", "noise"),
        ({"kinds": []}, "", "kinds", "kinds"),
        ({"noise": [float("nan")]}, "", "noise", "nan"),
        ({"seed": -1}, "", "seed", "seed"),
        ({"repeats": True}, "", "repeats", "repeats"),
        ({"methods": [{"name": "MLkNN", "params": {"n_neighbors": [1, 2]}}]}, "grid", "methods", "n_neighbors"),
        ({"methods": ["no_such_module:Method"]}, "be imported", "methods", "no_such_module:Method"),
        ({"methods": [{"label": "x"}]}, "", "methods", "{'label': 'x'}"),
        ({"data": [{"noise": [1]}]}, "a name or a path", "data", "noise"),
    ],
)
def test_nonsense_is_refused(options, says, section, word):
    with pytest.raises(PlanError) as error:
        Plan(**({"data": ["scene"]} | options))
    assert says in str(error.value)
    assert (error.value.section, error.value.word) == (section, word)


def test_unknown_data_sets_say_which_are_known_and_where_they_go(tmp_path, small_file, monkeypatch):
    monkeypatch.setenv("PMLKIT_DATA", str(small_file.parent))
    assert expand(Plan(["small"], ["MLkNN"], repeats=1))[0].data == "small"
    with pytest.raises(PlanError, match=r"no data set 'smal'\. Did you mean 'small'\?.*PMLKIT_DATA"):
        expand(Plan(["smal"], ["MLkNN"]))
    with pytest.raises(PlanError, match="at least 10 strips"):
        expand(Plan(["digit-strips:5"], ["MLkNN"]))
    with pytest.raises(DataError, match="There is no file"):
        expand(Plan([tmp_path / "absent.npz"], ["MLkNN"]))
    with pytest.raises(PlanError, match="reading npz has no option 'lables'"):
        expand(Plan([{"path": small_file, "lables": 4}], ["MLkNN"]))


def noises(plan):
    return [(cell.data, cell.noise, cell.ratio) for cell in expand(plan)]


def test_own_candidates_are_used_where_there_are_any(small_file, noisy_file, caplog):
    def plan(noise, of_second=None):
        return Plan([small_file, {"path": noisy_file, **(of_second or {})}], ["MLkNN"], noise=noise, repeats=1)

    assert noises(plan(["own", 0.5, 1])) == [
        ("small", "uniform", 0.5),
        ("small", "uniform", 1.0),
        ("noisy", "own", None),
    ]
    assert not caplog.records
    assert noises(plan([0.5])) == [("small", "uniform", 0.5), ("noisy", "uniform", 0.5)]
    assert "noisy has candidates of its own; they are dropped" in caplog.text
    assert noises(plan([0.5], of_second={"noise": ["own", 2], "kinds": ["correlated"]}))[1:] == [
        ("noisy", "own", None),
        ("noisy", "correlated", 2.0),
    ]
    with pytest.raises(PlanError, match="'small' has no candidates of its own"):
        noises(plan(["own"]))


def test_labels_without_truth_are_taken_for_it_but_are_no_candidates(tmp_path, small_file):
    write(read(small_file), tmp_path / "plain.arff")
    entry = {"path": str(tmp_path / "plain.arff"), "labels": 4}
    assert noises(Plan([entry], ["MLkNN"], repeats=1)) == [("plain", "uniform", 0.5)]
    with pytest.raises(PlanError, match="no truth to measure against"):
        noises(Plan([entry], ["MLkNN"], noise=["own"]))


def keys(plan):
    return {cell.key for cell in expand(plan)}


def test_anything_that_could_change_a_result_changes_the_key(small_file, tmp_path, monkeypatch):
    plan = Plan([small_file], ["MLkNN"], noise=[0.5], repeats=1)
    first = keys(plan)
    assert first == keys(plan)
    changed = {
        "noise": {"noise": [0.6]},
        "kind": {"kinds": ["correlated"]},
        "seed": {"seed": 1},
        "method": {"methods": ["PMLNI"]},
        "parameter": {"methods": [{"name": "MLkNN", "params": {"n_neighbors": 11}}]},
        "tuned": {"methods": [{"name": "MLkNN", "grid": {"n_neighbors": [10]}}], "tune": True},
        "folds": {"methods": [{"name": "MLkNN", "grid": {"n_neighbors": [10]}}], "tune": {"folds": 2}},
    }
    options = {"data": [small_file], "methods": ["MLkNN"], "noise": [0.5], "repeats": 1}
    found = [first, *(keys(Plan(**(options | change))) for change in changed.values())]
    data = read(small_file)
    X = np.array(data.X)
    X[0, 0] = np.nextafter(X[0, 0], 2)
    write(data.replace(X=X), tmp_path / "small.npz")
    found.append(keys(Plan(**(options | {"data": [tmp_path / "small.npz"]}))))
    monkeypatch.setattr(pmlkit.bench.cells, "__version__", "99")
    found.append(keys(plan))
    assert len(set.union(*found)) == len(found)


def test_what_cannot_change_a_result_does_not_change_the_key(small_file, tmp_path):
    plan = Plan([small_file], ["MLkNN"], noise=[0.5], repeats=1)
    write(read(small_file), tmp_path / "other.npz")
    same = [
        Plan([tmp_path / "other.npz"], ["MLkNN"], noise=[0.5], repeats=1),
        Plan([small_file], [{"name": "MLkNN", "label": "kNN", "params": {"n_neighbors": 10}}], noise=[0.5], repeats=1),
        Plan([small_file], ["MLkNN"], noise=[0.5], repeats=1, tune=None),
    ]
    assert all(keys(other) == keys(plan) for other in same)
    assert keys(plan) < keys(Plan([small_file], ["MLkNN", "PMLNI"], noise=[0.5, 1], repeats=3))


def test_code_counts_and_comments_do_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    code = textwrap.dedent('''
        """A method."""
        from pmlkit.methods.base import BasePML

        class Mine:
            """Mine."""
            def fit(self, X, Y):
                return NUMBER
    ''')

    def fingerprint(text):
        (tmp_path / "method_whose_code_counts.py").write_text(text)
        importlib.invalidate_caches()
        found = code_fingerprint(["method_whose_code_counts"])
        cells._source.cache_clear()
        return found

    first = fingerprint(code.replace("NUMBER", "1"))
    assert fingerprint(code.replace("NUMBER", "1").replace("A method", "The method") + "\n# Comment\n") == first
    assert fingerprint(code.replace("NUMBER", "2")) != first
    assert fingerprint(code.replace("NUMBER", "1").replace("methods.base", "numerics.prox")) != first


def test_the_code_of_a_method_does_not_hold_that_of_the_others():
    assert code_fingerprint(["pmlkit.methods.mlknn"]) != code_fingerprint(["pmlkit.methods.low_rank.pml_ni"])
    seen = _with_imports(["pmlkit.methods.mlknn", *_SHARED_CODE])
    assert {"pmlkit.methods.mlknn", "pmlkit.methods.base", "pmlkit.numerics.neighbors"} <= seen
    assert not any("pml_ni" in name or "pml_lfc" in name for name in seen)


def test_the_revision_is_one_of_git_or_nothing():
    assert git_revision() == "" or len(git_revision().removesuffix("-dirty")) == 40


def test_plans_do_not_change():
    plan = Plan(["scene"], ["MLkNN"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.repeats = 3
