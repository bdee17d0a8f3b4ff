"""Dask workers in processes of their own, for tests."""

import contextlib

import pytest


@contextlib.contextmanager
def two_workers():
    """Start two workers with one thread each, without a status page, and yield their client."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            host="127.0.0.1",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
