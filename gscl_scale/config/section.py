"""What a section of the configuration is, and what each of its keys says of itself."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict

Result = Literal["graph", "samples", "ring sizes", "rounds", "training", "splits", "probe", "figures", "nothing"]
RESULTS: tuple[Result, ...] = get_args(Result)[:-1]


@dataclass(frozen=True)
class Key:
    """A note beside a key's type, as in `Annotated[bool, Key(revision=2, neutral=True)]`.

    decides    the result that another value changes; None: that of its section
    revision   the revision of the configuration that brought the key; 0: the first
    neutral    what was done before there was such a key; with it, everything made before stays valid
    formerly   the key's name in earlier records and in fingerprints
    """

    decides: Result | None = None
    revision: int = 0
    neutral: Any = None
    formerly: str = ""


class Section(BaseModel):
    """A frozen part of the configuration that refuses unknown keys.

    DECIDES   the result that its keys decide, unless a key says otherwise
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    DECIDES: ClassVar[Result] = "nothing"

    @classmethod
    def key(cls, name: str) -> Key:
        """What a key says of itself; a key that is gone, or says nothing, belongs to its section."""
        field = cls.model_fields.get(name)
        notes = [note for note in field.metadata if isinstance(note, Key)] if field else []
        return notes[0] if notes else Key()

    @classmethod
    def decides(cls, name: str) -> Result:
        """The result that a key decides."""
        return cls.key(name).decides or cls.DECIDES


def positive(value: Any) -> int | None:
    """A whole number from 1, also as text; None for anything else."""
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 1 else None


def _check_auto(value: Any) -> Any:
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError("expected auto, true or false")


AutoOrBool = Annotated[Literal["auto"] | bool, BeforeValidator(_check_auto)]
