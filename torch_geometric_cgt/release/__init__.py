r"""What may be published: release files, their card and its verification."""
