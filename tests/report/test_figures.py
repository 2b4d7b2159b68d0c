from torch_geometric_cgt.report import figures


def test_colours_of_datasets_are_told_from_those_of_marks():
    assert len(set(figures.PALETTE)) == len(figures.PALETTE)
    for color in figures.PALETTE[:7]:  # none of the paper's graphs is grey
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        assert max(red, green, blue) - min(red, green, blue) > 60


def test_dots_show_what_was_not_run():
    labels = [f'method {i} + more' for i in range(12)]
    means = {'original': [0.8] * 12, 'generated': [None, *[0.5] * 11]}
    drawn = figures.dot_plot(labels, means, {'generated': [0.4] * 12}, (0.35, 0.9), 'AUC')
    assert all(f'method {i} +' in drawn for i in range(12)) and '>AUC</text>' in drawn
    assert 'not run' not in drawn
    assert '0.4</text>' in drawn and '>0.0</text>' not in drawn  # the axis says where it starts
    nothing = {**means, 'original': [None] + [0.8] * 11}
    assert 'not run' in figures.dot_plot(labels, nothing, {}, (0.35, 0.9))
