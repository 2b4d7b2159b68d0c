r"""The sentences of format 1, which version 0.1.0 wrote."""

from typing import Any

SENTENCES_1: dict[str, Any] = dict(
    groups=(
        'Every feature vector in this release is the mean of the feature vectors of at least {k} '
        'source nodes (the smallest group has {k_reached}).'
    ),
    diverse='The members of every group have at least {l_reached} distinct labels.',
    supported=(
        'Every path in this release, from the label of a root over the groups of the nodes down to '
        'one of them, is shown by the computation graphs of at least {min_support} source nodes.'
    ),
    group_limits=(
        'This is not differential privacy: no bound holds against somebody who knows all other '
        'nodes, or who compares several releases of the same graph.',
        'The groups protect feature vectors one by one. How tokens are combined in a computation '
        'graph is learned from the source: {unique_share:.0%} of its nodes are the only one with '
        'their label, group and groups of neighbours.',
        'Labels are not protected by the size of a group: {homogeneous} of {num_clusters} groups '
        'hold nodes of one label only, so that membership in such a group gives the label away '
        '(every group holds at least {l_reached} distinct labels; the labels of a group are up to '
        '{t_closeness:.2f} away from those of all nodes, on a scale from 0 to 1). Synthetic labels '
        'are drawn from the exact label counts of the source, and each comes with a class of '
        'surroundings, drawn from the counts of such classes per label and split.',
        'The sizes of the source graph and of its splits are stated as they are.',
    ),
    task=(
        'Groups were formed with a view to the labels (weight {task_weight:.2f}). The class '
        'probabilities of a node come from models that did not see its own label, but groups are '
        'more homogeneous than without them.'
    ),
    combined=(
        'The support of paths (at least {min_support} source nodes) protects paths one by one: '
        'which paths are together in a computation graph is learned from the source.'
    ),
    private_codebook=(
        'The feature vectors of this release, taken by themselves, are differentially private: '
        'epsilon = {cluster_epsilon:.4g}, delta = {cluster_delta:.2g}, for one node with its '
        'features and its label.'
    ),
    unprotected=(
        'This is not end-to-end differential privacy, and the release as a whole has no epsilon: '
        'noise protects the feature vectors alone. The group of each node, how groups are combined '
        'in computation graphs, and the labels were learned from the source without any.',
        'No k is guaranteed: groups have no minimum size (the smallest has {k_reached} nodes).',
    ),
    units={
        'record': (
            'one computation graph: that of one root, with the features and the label of the root'
        ),
        'edge': 'one edge: all computation graphs that it is in',
        'node': 'one node: its features, its label, and all computation graphs that it is in',
    },
    end_to_end=(
        'This release is ({epsilon:.3g}, {delta:.2g})-differentially private. Unit: {unit_words}. '
        'Two tables were learned from: the features and the label of each node, and one '
        'computation graph of each root, sampled once. Whatever somebody could conclude from this '
        'release, they could have concluded had the rows of the unit been zeroed out in both; the '
        'probabilities of that differ by a factor of at most {factor}, but for cases of '
        'probability {delta:.2g}.',
        'This holds against somebody who knows all other data and has any computing power, and for '
        'everything that is done with this release later. The noise is secret: it was made of '
        'random bits of the operating system, which are taken to be random.',
        'Every stage that looks at the data is in the ledger of this card with its noise; the '
        'budget is the cost of all of them together.',
    ),
    capped=(
        'A node occurs in at most {trees_per_node} computation graphs, an edge in at most '
        '{trees_per_edge}: the sample that the model learned from has at most {max_parents} '
        'parents per node.'
    ),
    nothing=(
        'Nothing is guaranteed: the noise was drawn from a seed, and whoever knows or guesses that '
        'seed can take the noise away.'
    ),
    seeded=(
        'With noise that nobody can draw again, the same build would be ({epsilon:.3g}, '
        '{delta:.2g})-differentially private. Unit: {unit_words}. This one is for tests.'
    ),
    dp_limits=(
        'The numbers of nodes, of labelled nodes, of features and of labels of the source are '
        'taken to be known, and are stated as they are; so is whether it had splits.',
        'The sample of neighbours is drawn once and is a part of the data: it is not drawn again '
        'without the unit.',
        'Another release from the same source costs again: budgets add up.',
        'What is true of a whole group of nodes can be learned, also about members who are not in '
        'the data.',
        'Shares of the budget and sizes were fixed while looking at results on Cora and PubMed. '
        'For these two graphs, that choice is not in the ledger.',
    ),
    record=(
        'A node also occurs in the computation graphs of its neighbours. Those are other records: '
        'what they say of it is not covered by the unit "record".'
    ),
    edge=(
        'Features and labels are not covered by the unit "edge": the budget bounds what is learned '
        'about one edge, and says nothing about what a node is or has.'
    ),
    large_delta=(
        'delta is larger than one in the number of nodes, which was accepted when this was made: a '
        'mechanism that publishes one random row as it is would meet it.'
    ),
    gradients=(
        'The noise of gradients is made of floating-point numbers, which are not quite Gaussian in '
        'their last digits.'
    ),
    projected=(
        'Feature vectors are not in the space of the features: they have {size} coordinates, those '
        'of a public random projection of all {num_features} features, which this release holds. '
        'What a single feature is cannot be read from them.'
    ),
    pretrained=(
        "The model of trees started from weights that were learned without noise from '{name}' "
        '(fingerprint {fingerprint}). That graph is taken to be public: nothing about it is '
        'protected, and nobody who is in it as well is protected from what it says.'
    ),
)
