"""A run on disk: the folder of a trained model. Written atomically; nothing in it is ever unpickled.

config.json          format, class, settings, training settings, package version, source of the data
model.safetensors    the weights
items.parquet        id, title, attributes, popularity
log.jsonl            one line per epoch
metrics.json         scores on the held-out users
axes.safetensors     axes of each concept: all kinds computed, the kind in use, and the range of users
names.json           names of concepts and dimensions, with evidence; people may edit it
effects.json         what every knob does to the lists of validation users
heldout.safetensors  the held-out users, so that `evaluate` needs only the run
map.safetensors      item positions on the studio's map, once requested
inspection.json      the output of `inspect`, once the studio requested it
manifest.json        the SHA-256 of each of these files, checked whenever a run is opened
training/            an unfinished training: its checkpoint, and the run so far (`draft`)
"""

from macrid.runs.folder import (
    CACHES,
    DRAFT,
    EDITABLE,
    FILES,
    REMEDY,
    TRAINING,
    has_progress,
    read_config,
    weights_digest,
)
from macrid.runs.heldout import read_heldout, read_histories, read_sample, read_validation
from macrid.runs.loading import accept, examine, fill, load, read_metrics
from macrid.runs.meaning import read_names, write_names
from macrid.runs.saving import check_place, keep, save

__all__ = [
    "CACHES",
    "DRAFT",
    "EDITABLE",
    "FILES",
    "REMEDY",
    "TRAINING",
    "accept",
    "check_place",
    "examine",
    "fill",
    "has_progress",
    "keep",
    "load",
    "read_config",
    "read_heldout",
    "read_histories",
    "read_metrics",
    "read_names",
    "read_sample",
    "read_validation",
    "save",
    "weights_digest",
    "write_names",
]
