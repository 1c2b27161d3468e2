"""Read what ``kubectl get -o json`` prints of Kueue's objects as one instance with tenants."""

from apportion.instances.readers.kueue.read_dump import Dump, read_dump

__all__ = ["Dump", "read_dump"]
