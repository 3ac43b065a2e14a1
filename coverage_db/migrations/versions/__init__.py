"""The revisions, oldest first; upgrade.REVISIONS lists them."""
