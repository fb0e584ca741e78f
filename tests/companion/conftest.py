"""Fixtures of published figures: what is displayed, and the folder that a chapter leaves files in."""

import matplotlib.pyplot as plt
import pytest
from companion import publish


@pytest.fixture
def shown(monkeypatch):
    """The mime bundles that are displayed."""
    bundles = []
    monkeypatch.setattr(publish, "display", lambda bundle, raw: bundles.append(bundle))
    return bundles


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    monkeypatch.setenv("CODING_SCHEMES_ARTIFACTS", str(tmp_path / "downloads"))
    monkeypatch.setenv("CODING_SCHEMES_CHAPTER", "analog")
    return tmp_path / "downloads"


@pytest.fixture
def close_figures():
    yield
    plt.close("all")
