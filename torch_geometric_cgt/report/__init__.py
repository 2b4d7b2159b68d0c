r"""Tables, figures and pages."""
