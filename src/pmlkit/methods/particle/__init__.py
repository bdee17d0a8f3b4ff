"""PARTICLE (Fang and Zhang 2019): credible labels by propagation, then one classifier per pair of labels.

- ``estimators``: the classes :class:`ParticleVLS` and :class:`ParticleMAP`;
- ``elicitation``: which candidates are credible, by label propagation on a nearest-neighbour graph;
- ``pairwise``: linear support vector machines for pairs of labels, and their votes.
"""

from pmlkit.methods.particle.estimators import ParticleMAP, ParticleVLS

__all__ = ["ParticleMAP", "ParticleVLS"]
