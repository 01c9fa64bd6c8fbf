"""A run on disk: the folder of a trained model. Written atomically; nothing in it is ever unpickled.

config.json          format, class, settings, training settings, package version, source of the data
model.safetensors    the weights
items.parquet        id, title, attributes, popularity
log.jsonl            one line per epoch
metrics.json         scores on the held-out users
axes.safetensors     axes of each concept: all kinds computed, the kind in use, and the range of users
names.json           names of concepts and dimensions, with evidence; people may edit it
effects.json         what every knob does to the lists of validation users
heldout.safetensors  the held-out users, so that `evaluate` needs only the run; some train users if nobody is held out
first.safetensors    with a final model, the weights of the one before it, which has not seen the held-out users
added.parquet        items added after training: id, attributes, how they were placed
added.safetensors    their vectors
map.safetensors      item positions on the studio's map, once requested
inspection.json      the output of `inspect`, once the studio requested it
index.safetensors    which items are similar, so that the best are found without scoring all of them
diff.json            after a warm start, the differences from the run it started from
manifest.json        the SHA-256 of each of these files, checked whenever a run is opened
training/            an unfinished training: its checkpoints (of a final model in `final`), and the run so far (`draft`)
"""

from macrid.runs.added import added_digest, read_added, write_added
from macrid.runs.folder import (
    CACHES,
    DRAFT,
    EDITABLE,
    FILES,
    FINAL,
    REMEDY,
    TRAINING,
    has_progress,
    read_config,
    weights_digest,
)
from macrid.runs.heldout import read_heldout, read_histories, read_sample, read_validation
from macrid.runs.index import INDEX, index_if_large, read_index, remove_index, write_index
from macrid.runs.loading import accept, examine, fill, load, read_diff, read_first, read_metrics
from macrid.runs.meaning import read_names, write_names
from macrid.runs.saving import add, check_place, keep, save

__all__ = [
    "CACHES",
    "DRAFT",
    "EDITABLE",
    "FILES",
    "FINAL",
    "INDEX",
    "REMEDY",
    "TRAINING",
    "accept",
    "add",
    "added_digest",
    "check_place",
    "examine",
    "fill",
    "has_progress",
    "index_if_large",
    "keep",
    "load",
    "read_added",
    "read_config",
    "read_diff",
    "read_first",
    "read_heldout",
    "read_histories",
    "read_index",
    "read_metrics",
    "read_names",
    "read_sample",
    "read_validation",
    "remove_index",
    "save",
    "weights_digest",
    "write_added",
    "write_index",
    "write_names",
]
