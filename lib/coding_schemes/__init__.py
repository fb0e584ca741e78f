"""Coding schemes in neural networks: tasks, networks, posteriors, samplers and theory."""
