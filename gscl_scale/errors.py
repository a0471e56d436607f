"""Everything that gscl-scale raises on purpose.

GsclError                 base of all; the message is one sentence for the reader at 3 a.m.
├── UserError             the input or the request is wrong; exit code 2
│   ├── ConfigError       a key or value of the configuration
│   ├── GraphError        the user's graph
│   ├── UnknownIdError    no node has an id; also a KeyError, as of a dict
│   └── FolderError       a folder is missing, damaged, or was made from something else; AbsentError: a file of a store
├── LeaseError            another process works on the same run folder or registry; exit code 4
└── RunError              the work itself failed; exit code 1
    ├── StoppedError      a signal or a time limit stopped it
    ├── OvertakenError    another process wrote the same run to its store, and was faster
    ├── PeerError         another process of a training has ended or is silent
    ├── DivergedError     training left the finite numbers
    ├── LostRowsError     a machine that had rows of a layer on its disk has gone
    └── TaskError         a task of a stage failed

Each takes exactly one message, so that all of them pickle across processes.
"""

INTERRUPTED = 130  # exit code after Ctrl-C
STOPPED = "stopped; finished work is kept, rerun the command to resume"


class GsclError(Exception):
    """Base of every error that gscl-scale raises on purpose.

    Examples
    --------
    >>> import gscl_scale
    >>> try:
    ...     gscl_scale.open_run("nowhere")
    ... except gscl_scale.GsclError as error:
    ...     print(error)
    nowhere holds no run; expected a run folder, the folder of a registry, or the URL of one
    """


class UserError(GsclError, ValueError):
    """The input or the request is wrong; the message says what, where, expected, got, and what to do."""


class ConfigError(UserError):
    """A key or value of the configuration is wrong; the message begins with its dotted path."""


class GraphError(UserError):
    """The user's graph cannot be used."""


class UnknownIdError(UserError, KeyError):
    """No node has this id."""

    __str__ = Exception.__str__  # KeyError puts quotes around its message


class FolderError(UserError):
    """A folder is missing, damaged, or was made from another graph or configuration."""


class AbsentError(FolderError):
    """A file is not in the store."""


class LeaseError(GsclError):
    """Another process works on the same run folder, or has the lease of the registry."""


class RunError(GsclError, RuntimeError):
    """The work itself failed."""


class StoppedError(RunError):
    """A signal or a time limit stopped the work, which can be resumed."""


class OvertakenError(RunError):
    """Another process wrote the same run to its store, and was faster."""


class PeerError(RunError):
    """Another process of a training has ended, or is silent for too long."""


class DivergedError(RunError):
    """Training produced numbers that are not finite."""


class LostRowsError(RunError):
    """A machine that had rows of a layer on its disk has gone."""


class TaskError(RunError):
    """A task of a stage failed."""
