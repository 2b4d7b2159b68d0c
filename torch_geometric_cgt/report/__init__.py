r"""Tables, figures and pages of benchmarks, evaluations and audits."""
