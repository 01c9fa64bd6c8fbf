"""All that macrid writes, each with an old and a new version, for tests of what happens when writing fails."""

import shutil
from dataclasses import replace

import macrid
from macrid import runs
from macrid.concepts.meaning import meaning_of
from macrid.data import store
from macrid.models.macridvae import MacridVAE
from macrid.training import checkpoint


class Writer:
    """Something that writes, with a state before and after."""

    def prepare(self, folder):
        """Write the old version."""

    def write(self, folder):
        """Write the new version."""

    def read(self, folder):
        """What a reader gets: "old" or "new"."""


class Save(Writer):
    """`macrid train --overwrite`, at its end: model.save."""

    def __init__(self, model, split):
        self.model, self.split = model, split

    def prepare(self, folder):
        macrid.Popularity().fit(self.split.train).save(folder / "run")

    def write(self, folder):
        heldout = {"validation": self.split.validation}
        runs.save(self.model, folder / "run", overwrite=True, heldout=heldout)

    def read(self, folder):
        return "new" if isinstance(macrid.load(folder / "run", "cpu"), MacridVAE) else "old"


class Keep(Writer):
    """`macrid axes` and `macrid names`: axes, names and effects together."""

    def __init__(self, run):
        self.run, self._high = run, self._high_of(run)

    def _high_of(self, run):
        return float(meaning_of(macrid.load(run, "cpu")).axes["original"].high.max())

    def prepare(self, folder):
        shutil.copytree(self.run, folder / "run")

    def write(self, folder):
        model = macrid.load(folder / "run", "cpu")
        meaning = meaning_of(model)
        meaning.names = meaning.names.renamed(0, "changed")
        meaning.axes["original"] = replace(meaning.axes["original"], high=meaning.axes["original"].high + 1)
        runs.keep(model, folder / "run")

    def read(self, folder):
        meaning = meaning_of(macrid.load(folder / "run", "cpu"))
        is_new = meaning.names.concept_name(0) == "changed"
        assert is_new == (self._high_of(folder / "run") > self._high + 0.5), "axes of one, names of the other"
        return "new" if is_new else "old"


class Prepare(Writer):
    """`macrid data prepare --overwrite`."""

    def __init__(self, split):
        self.split = split

    def prepare(self, folder):
        store.write(self.split, folder / "data", about={"which": "old"})

    def write(self, folder):
        store.write(self.split, folder / "data", overwrite=True, about={"which": "new"})

    def read(self, folder):
        store.read(folder / "data")
        return store.read_about(folder / "data")["recipe"]["which"]


class Checkpoint(Writer):
    """The checkpoint after an epoch."""

    def __init__(self, split):
        self.split = split

    def _fit(self, folder, epochs):
        model = macrid.MacridVAE(concepts=2, dim=2, start="random", neighbours=0)
        own = {"validation": self.split.validation, "batch_size": 200, "device": "cpu", "checkpoint": folder / "c"}
        return model.fit(self.split.train, **own, epochs=epochs, resume=True)

    def prepare(self, folder):
        self._fit(folder, 1)

    def write(self, folder):
        self._fit(folder, 2)

    def read(self, folder):
        copy = shutil.copytree(folder, folder.with_name("copy"), dirs_exist_ok=True)
        epochs = len(self._fit(copy, 1).log)
        shutil.rmtree(copy)
        assert checkpoint.FILE in {file.name for file in (folder / "c").iterdir()}
        return {1: "old", 2: "new"}[epochs]


def writers(model, split, named_run):
    """By name. model: trained on the split. named_run: a run of it with names; it is copied."""
    return {
        "save": Save(model, split),
        "keep": Keep(named_run),
        "prepare": Prepare(split),
        "checkpoint": Checkpoint(split),
    }
