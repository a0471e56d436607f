"""Runs at a URL, from Python."""

import uuid

import numpy as np
import pytest

import gscl_scale
from tests import forms
from tests.s3 import BUCKET
from tests.test_node_embeddings import SETTINGS


def test_a_run_at_a_url_is_trained_measured_and_opened_from_python(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "cache"))
    where = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    made = gscl_scale.fit(forms.draft()[0], SETTINGS, run=where)
    opened = gscl_scale.open_run(where)
    np.testing.assert_array_equal(opened, made)
    assert repr(opened) == f"NodeEmbeddings of 300 nodes, 8 numbers each (run {where})"
    with pytest.raises(gscl_scale.GsclError, match=r"has no metrics\.json, and it lacks samples/"):
        _ = opened.metrics
    made.report()  # measures and is pushed
    again = gscl_scale.open_run(where)
    assert again.metrics == made.metrics
    assert "How good are the embeddings?" in again.report().read_text()
