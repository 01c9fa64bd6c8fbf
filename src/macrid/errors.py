"""Every error a user can cause: one root, a few children. A message says what is wrong, where, and what to do."""


class MacridError(Exception):
    """The root of all errors raised on purpose; the command line prints it as one line and exits with 1."""


class DataError(MacridError):
    """Events, items or a prepared folder that cannot be used as they are."""


class SettingsError(MacridError, ValueError):
    """A setting outside of what it may be."""


class RunError(MacridError):
    """A run folder that cannot be read or written."""


class TrainingError(MacridError):
    """Training that cannot go on."""


class StudyError(MacridError):
    """A search over settings whose storage cannot be reached, or belongs to something else."""


class RequestError(MacridError, ValueError):
    """A question that a trained model cannot answer: unknown items, or more items than there are."""


class UnknownItemsWarning(UserWarning):
    """Some items of a history are not in the model's catalogue; the others were used."""


class LeftOutWarning(UserWarning):
    """Some users get no recommendations: none of their items is known, or too few are left to choose from."""


class CollapseWarning(UserWarning):
    """Half of the concepts or fewer are in effective use."""


class RangeWarning(UserWarning):
    """A move beyond what real users have; it was made as far as they go, or all the way if that was asked for."""


def first_line(error: BaseException) -> str:
    """What another library says is wrong, short enough for a message of ours."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
