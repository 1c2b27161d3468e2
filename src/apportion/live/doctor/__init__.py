"""What has to be in order before nodes are harvested: looked at piece by piece, with what to mend."""
