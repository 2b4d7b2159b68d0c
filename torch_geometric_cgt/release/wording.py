r"""The sentences of cards, by the format of the release.

A card is compared with the sentences of its own format, so that an altered card of an old
release is found as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

K_ANONYMITY, PRIVATE_CLUSTERS, DP = 'k-anonymity', 'private clusters', 'differential privacy'
EACH_ALONE = 'Groups protect each feature vector on its own. '


@dataclass(frozen=True)
class Wording:
    r"""The sentences of one format, with places for facts."""

    # k-anonymity.
    groups: str
    diverse: str
    supported: str
    group_limits: tuple[str, ...]
    task: str
    combined: str
    # A private codebook in a release that is not private otherwise.
    private_codebook: str
    unprotected: tuple[str, ...]
    # Differential privacy of the whole release.
    units: dict[str, str]
    end_to_end: tuple[str, ...]
    capped: str
    nothing: str
    seeded: str
    dp_limits: tuple[str, ...]
    record: str
    edge: str
    large_delta: str
    gradients: str
    projected: str
    pretrained: str
    # From format 3 on.
    neighbours: dict[str, str] = field(default_factory=dict)
    changed: str = ''
    bounded: str = ''
    # k-anonymity, from format 3 on.
    protected_groups: str = ''
    value_support: str = ''
    rounded: str = ''
    no_anonymity: str = ''
    one_group: str = ''
    members_exact: str = ''
    members_protected: str = ''
    members_one: str = ''
    each_alone: str = ''


FORMAT_1 = Wording(  # version 0.1.0 wrote it
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

FORMAT_2 = replace(
    FORMAT_1,
    supported=(
        'At least {min_support} source nodes have a computation graph that shows each path of this '
        'release. A path is the label of a root with the groups of the nodes from the root down to '
        'one node.'
    ),
    group_limits=(
        'This is not differential privacy. There is no bound on what a person can learn who knows '
        'all other nodes, or who compares several releases of the same graph.',
        'Groups do not hide who is in the source. A person who knows the features of a node can '
        'often tell from the feature vectors of this release whether the node was in the source.',
        'Groups protect each feature vector on its own. The generator learns from the source how '
        'groups occur together in a computation graph: {unique_share:.0%} of its nodes are the '
        'only node with their label, their group and the groups of their neighbours.',
        'The size of a group does not protect labels. {homogeneous} of {num_clusters} groups hold '
        'nodes of one label only, so whoever knows that a node is in such a group knows its label. '
        'Every group holds at least {l_reached} distinct labels. The total variation distance '
        'between the labels of a group and the labels of all nodes is at most {t_closeness:.2f}. '
        'Synthetic labels are drawn from the exact label counts of the source, and scenes from '
        'their exact counts per label and split.',
        'The card states the exact sizes of the source graph and of its splits.',
    ),
    task=(
        'Class probabilities took part in forming the groups (weight {task_weight:.2f}). The '
        'probabilities of a node come from models that did not see its label, but groups are more '
        'homogeneous than without them.'
    ),
    combined=(
        'The support rule (at least {min_support} source nodes) protects each path on its own. The '
        'generator learns from the source which paths occur together in a computation graph.'
    ),
    private_codebook=(
        'The feature vectors of this release, on their own, are differentially private: epsilon = '
        '{cluster_epsilon:.4g}, delta = {cluster_delta:.2g}, for one node with its features and '
        'its label.'
    ),
    unprotected=(
        'This is not end-to-end differential privacy, and the release as a whole has no epsilon. '
        'Noise protects only the feature vectors. The group of each node, the way groups occur '
        'together in computation graphs, and the labels were learned from the source without '
        'noise.',
        'No k is guaranteed: groups have no minimum size (the smallest has {k_reached} nodes).',
    ),
    end_to_end=(
        'This release is ({epsilon:.3g}, {delta:.2g})-differentially private. Unit: {unit_words}. '
        'It was learned from two tables: the features and the label of each node, and one '
        'computation graph of each root, sampled once. Compare it with a release that was made '
        'after the rows of one unit were set to zero in both tables: the probability of any result '
        'differs by a factor of at most {factor}, except with probability {delta:.2g}.',
        'This holds against a person who knows all other data and has any computing power, and for '
        'everything that is computed from this release later. The noise is secret: it comes from '
        'the random bits of the operating system, which are assumed to be random.',
        'Every stage that reads the data is in the ledger of this card with its noise. The budget '
        'is the cost of all stages together.',
    ),
    capped=(
        'A node occurs in at most {trees_per_node} computation graphs and an edge in at most '
        '{trees_per_edge}, because every node has at most {max_parents} parents in the sample that '
        'the model learned from.'
    ),
    nothing=(
        'Nothing is guaranteed: the noise was drawn from a seed, and whoever knows or guesses the '
        'seed can subtract the noise.'
    ),
    seeded=(
        'With secret noise, the same build would be ({epsilon:.3g}, {delta:.2g})-differentially '
        'private. Unit: {unit_words}. This build is for tests.'
    ),
    dp_limits=(
        'The numbers of nodes, labelled nodes, features and labels of the source, and whether it '
        'had splits, are treated as public. The card states them as they are.',
        'The sample of neighbours is drawn once and is part of the data. It is not drawn again '
        'without the unit.',
        'Another release from the same source has its own cost: budgets add up.',
        'Facts about a whole group of nodes can be learned, also about members of the group who '
        'are not in the data.',
        'Shares of the budget and sizes were chosen with results on Cora and PubMed in view. For '
        'these two graphs, that choice is not in the ledger.',
    ),
    record=(
        'A node also occurs in the computation graphs of its neighbours. These are other records, '
        'and the unit "record" does not cover what they reveal about the node.'
    ),
    edge=(
        'Features and labels are not covered by the unit "edge". The budget limits what can be '
        'learned about one edge, not what can be learned about the features or the label of a '
        'node.'
    ),
    large_delta=(
        'delta is larger than one in the number of nodes, and this was accepted when the release '
        'was made. A mechanism that publishes one random row unchanged would satisfy it.'
    ),
    gradients=(
        'The noise of gradients consists of floating-point numbers, whose last digits are not '
        'exactly Gaussian.'
    ),
    projected=(
        'Feature vectors are not in the space of the source features. They have {size} '
        'coordinates: a public random projection of all {num_features} features, which is part of '
        'this release. They do not show the value of a single feature.'
    ),
    pretrained=(
        "The model of trees started from weights that were learned without noise from '{name}' "
        '(fingerprint {fingerprint}). That graph is taken to be public: nothing in it is '
        'protected, including what it reveals about a person who is also in the source.'
    ),
)

FORMAT_3 = replace(
    FORMAT_2,
    units={
        'node': 'one node with its features, its label and all its edges',
        'attributes': 'the features and the label of one node',
        'edge': 'one edge, in both directions',
        'frozen_record': (
            'one row of a table of computation graphs that was sampled once, with the features '
            'and the label of its root'
        ),
    },
    end_to_end=(
        'This release is ({epsilon:.3g}, {delta:.2g})-differentially private{scope}. Unit: '
        '{unit_words}. Compare it with a release that is made from {neighbour}: the probability '
        'of any result differs by a factor of at most {factor}, except with probability '
        '{delta:.2g}.{changed}',
        *FORMAT_2.end_to_end[1:],
    ),
    neighbours={
        'node': (
            'the same graph without one node, its features, its label and all its edges, with '
            'everything computed again'
        ),
        'attributes': (
            'the same graph in which one node has any other features and label, with everything '
            'computed again'
        ),
        'edge': 'the same graph without one edge, with everything computed again',
        'frozen_record': 'the same tables without this row, with all other rows as they are',
    },
    changed=' If the unit is replaced instead of removed, epsilon is {changed_epsilon:.3g}.',
    bounded=' for nodes with at most {max_degree} edges into them, and not private for others',
    dp_limits=(
        FORMAT_2.dp_limits[0],
        *FORMAT_2.dp_limits[2:4],
        'Shares of the budget, caps and sizes were chosen with results on Cora, PubMed and Photo '
        'in view. For these graphs, that choice is not in the ledger.',
    ),
    record=(
        'The unit "frozen record" protects neither a node nor its attributes. A node is also in '
        'the computation graphs of other nodes. These are other rows, and what they reveal about '
        'the node is not covered.'
    ),
    edge=(
        'Features and labels are not covered by the unit "edge". Each feature vector is computed '
        'from at least {k} source nodes, without noise. Labels are drawn from their exact counts.'
    ),
    protected_groups=(
        'Every feature vector in this release is computed from the feature vectors of at least {k} '
        'source nodes (the smallest group has {k_reached}). It is their mean, with these changes.'
    ),
    value_support=(
        'A feature that fewer than {min_value_support} nodes of a group have is left out. Its '
        'value is the mean over four similar groups if {min_value_support} of their nodes have '
        'it, and zero otherwise.'
    ),
    rounded=(
        'Means are rounded to multiples of {rounding:.3g} times the scale of their feature, and '
        'means over four groups to multiples of a quarter of that. The '
        'scale is a power of two: 1 for features that are 0 or 1, otherwise the usual size of a '
        'value. Values beyond twice the scale are clipped first.'
    ),
    no_anonymity=(
        'Nothing is guaranteed about feature vectors: k = 1 was accepted when this release was '
        'made, so they can be those of single source nodes.'
    ),
    one_group='There is one group only: all nodes have the same feature vector.',
    members_exact=(
        'Groups do not hide who is in the source. The feature vectors of this release are exact '
        'means. A person who knows the features of a node can tell from them whether the node was '
        'in the source, often with near certainty. The size of each group can be computed from '
        'means of features that are 0 or 1.'
    ),
    members_protected=(
        'It is not guaranteed that nobody can tell who is in the source. The changes to the means '
        'remove most of what the known attacks use, but a person who knows the features of a node '
        'can still guess better than by chance whether the node was in the source.'
    ),
    members_one=(
        'It is not hidden who is in the source. A person who knows the features of a node can look '
        'them up in this release.'
    ),
    group_limits=(
        FORMAT_2.group_limits[0],
        '{each_alone}' + FORMAT_2.group_limits[2].removeprefix(EACH_ALONE),
        *FORMAT_2.group_limits[3:],
    ),
    each_alone=EACH_ALONE,
)

WORDINGS = {1: FORMAT_1, 2: FORMAT_2, 3: FORMAT_3}
NEWEST = max(WORDINGS)
