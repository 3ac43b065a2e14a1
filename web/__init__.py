"""The read-only site: pages and their JSON twins over the database, served without JavaScript."""

from neuron_ops.web.app import create_app

__all__ = ["create_app"]
