"""Bins of a timeline."""

import numpy as np

from warpsight.analysis.stats.overview import edges_of


def test_edges_rise_over_spans_of_decades():
    edges = edges_of(900, 1_689_233_834_571_025_258, 200)
    assert edges[0] == 900 and edges[-1] == 1_689_233_834_571_025_258
    assert np.all(np.diff(edges) > 0)


def test_edges_are_those_of_equal_bins():
    assert edges_of(10, 17, 4).tolist() == [10, 11, 13, 15, 17]
