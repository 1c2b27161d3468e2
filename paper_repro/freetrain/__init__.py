"""FreeTrain and BFTrainer: gap filling on real idle nodes."""
