#!/bin/sh
# Runs a trainer in an Apptainer image; the agent starts it on every node or GPU like any other command.
#
#     apportion submit --max 8 -- /shared/apptainer.sh /shared/train.sif python3 train.py
#
# The variables of the protocol reach the trainer because Apptainer hands the environment on (no --cleanenv), and its
# reports reach the agent because the network is the node's. SIGTERM goes to the whole process group; exec keeps the
# exit code the trainer's own, by which the agent knows that a checkpoint was saved.
set -eu
image=$1
shift
gpu=
[ -z "${CUDA_VISIBLE_DEVICES:-}" ] || gpu=--nv
exec apptainer exec $gpu --bind "$APPORTION_CHECKPOINT" --bind "$PWD" --pwd "$PWD" "$image" "$@"
