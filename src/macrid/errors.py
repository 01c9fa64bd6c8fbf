"""Every error a user can cause: one base class and a few subclasses. A message says what is wrong, where, and how to
fix it."""


class MacridError(Exception):
    """Base class of all errors raised on purpose; the command line prints one line and exits with 1."""


class DataError(MacridError):
    """Events, items or a prepared folder that cannot be used as is."""


class DatabaseError(MacridError):
    """A database that cannot be reached, or does not do what was asked."""


class ClusterError(MacridError):
    """A Ray cluster that cannot be reached, or lost the work it was given."""


class SettingsError(MacridError, ValueError):
    """An unknown setting, or a value out of range."""


class RunError(MacridError):
    """A run folder that cannot be read or written."""


class TrainingError(MacridError):
    """Training that cannot continue."""


class StudyError(MacridError):
    """A study whose storage cannot be reached or belongs to a different search."""


class RequestError(MacridError, ValueError):
    """A question that a trained model cannot answer: unknown items, or more items than exist."""


class UnknownItemsWarning(UserWarning):
    """Some items of a history are not in the model's catalogue and were ignored."""


class LeftOutWarning(UserWarning):
    """Some users get no recommendations: nothing is left to choose from."""


class FallbackWarning(UserWarning):
    """No item of a history is known, so the list has what is popular."""


class RulesWarning(UserWarning):
    """What rules did that may surprise: fewer items than requested, ignored ids, a pin that cannot be placed."""


class CollapseWarning(UserWarning):
    """At most half of the concepts are in effective use."""


class CallbackWarning(UserWarning):
    """A callback failed; the training goes on without it."""


class EditedWarning(UserWarning):
    """A file of a run that people may edit is not the one that macrid wrote."""


class IndexWarning(UserWarning):
    """The index of a run cannot be used, so every item is scored."""


class RangeWarning(UserWarning):
    """A move beyond the range of real users; it stops at the edge of that range unless told to go further."""


def first_line(error: BaseException) -> str:
    """Another library's error, short enough to quote in a message of ours."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
