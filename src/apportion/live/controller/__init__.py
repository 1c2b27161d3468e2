"""The controller: observes the cluster, decides, and acts."""
