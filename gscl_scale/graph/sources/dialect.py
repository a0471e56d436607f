"""How rows and cells stand in a text file: separator, header, comments, and the banner of a Matrix Market file."""

import gzip
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from gscl_scale.errors import GraphError
from gscl_scale.io.validate import size_of
from gscl_scale.text import quoted, shortened

_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist")
_PACKED = ("", ".gz", ".zst")
_TABBED = (".tsv", ".tab")
TEXT = tuple(f"{ending}{packed}" for ending in _ENDINGS for packed in _PACKED)
MATRIX = tuple(f".mtx{packed}" for packed in _PACKED)

MARKS = ("#", "%", "//")  # what begins comment lines in files of others
SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "blanks": " "}
_WITH_BLANKS = "+blanks"
_FIELDS = {"pattern": (), "integer": ("value",), "real": ("value",)}
_LONGEST_BANNER = 1 << 20


@dataclass(frozen=True)
class Dialect:
    """How a text file holds a table.

    separator   between cells: one character; a blank: any number of blanks and tabs; a character and a blank: that
                character, and blanks around it are no part of a cell
    header      whether the first row names the columns; otherwise they are column_1, column_2, ...
    comment     characters, each of which begins a comment line; `//` counts as one. None: no such line is known, and
                rows that look like one are refused
    skipped     rows at the beginning that are none of the table
    names       names of the columns, if the kind of file sets them
    rows        number of rows, if the file tells it
    """

    separator: str = ","
    header: bool = True
    comment: str | None = ""
    skipped: int = 0
    names: tuple[str, ...] = ()
    rows: int | None = None

    @classmethod
    def of(cls, separator: str | None, header: bool, comment: str | None) -> "Dialect":
        """The dialect that settings name; without a separator the ending of a file decides."""
        return cls(separator_of(separator) if separator else "", header, comment)

    def of_file(self, path: Path) -> "Dialect":
        """The dialect of one file: a Matrix Market file tells its own."""
        name = path.name.lower()
        if name.endswith(MATRIX):
            return matrix_dialect(path)
        ending = name.removesuffix(".gz").removesuffix(".zst")
        return self if self.separator else replace(self, separator="\t" if ending.endswith(_TABBED) else ",")

    @property
    def delimiter(self) -> str:
        """The one character between cells once `clean` has been over the lines."""
        return self.separator.strip(" ") or "\t"

    @property
    def is_plain(self) -> bool:
        """Whether `clean` changes nothing."""
        return " " not in self.separator and not self.comment and not self.skipped

    def clean(self, lines: bytes) -> bytes:
        """Whole lines without comments, and with one delimiter between cells; quoted cells stay as they are."""
        marks = [mark.encode() for mark in marks_of(self.comment or "") if mark.encode() in lines]
        if marks:
            begun = b"|".join(map(re.escape, marks))
            comment = rb"(?:\A|(?<=[\r\n]))[ \t]*(?:%b)[^\r\n]*(?:\r\n|\r|\n|\Z)" % begun
            lines = re.sub(comment, b"", lines)
        if " " not in self.separator:
            return lines
        if b'"' in lines:
            return self._without_blanks_around_quotes(lines)
        return self._without_blanks(lines)

    def _without_blanks(self, lines: bytes) -> bytes:
        """Lines without quotes: several times as fast as by a regular expression."""
        delimiter = self.delimiter.encode()
        blanks: tuple[bytes, ...]
        if self.separator == " ":
            lines, blanks, shorter = lines.replace(b" ", b"\t"), (b"\t",), [(b"\t\t", b"\t")]
        else:
            blanks = (b" ",) if delimiter == b"\t" else (b" ", b"\t")
            shorter = [
                pair for blank in blanks for pair in ((blank + delimiter, delimiter), (delimiter + blank, delimiter))
            ]
        for blank in blanks:
            shorter += [pair for end in (b"\n", b"\r") for pair in ((end + blank, end), (blank + end, end))]
        before = b""
        while before != lines:
            before = lines
            for several, one in shorter:
                lines = lines.replace(several, one)
        return lines.strip(b"".join(blanks))

    def _without_blanks_around_quotes(self, lines: bytes) -> bytes:
        delimiter = self.delimiter.encode()
        blank = b"[ ]" if self.separator == "\t " else b"[ \t]"  # a tab at the end of a line ends a cell
        lines = re.sub(rb"(?:\A|(?<=[\r\n]))%b+|%b+(?=[\r\n]|\Z)" % (blank, blank), b"", lines)
        gap = rb"[ \t]+" if self.separator == " " else rb"%b*%b%b*" % (blank, re.escape(delimiter), blank)
        cell = rb'(?:\A|(?<=[\s%b]))"(?:[^"\r\n]|"")*"' % re.escape(delimiter)
        return re.sub(rb"(%b)|%b" % (cell, gap), lambda found: found[1] or delimiter, lines)


def marks_of(comment: str) -> list[str]:
    """What begins a comment line, by the setting.

    >>> marks_of("#//")
    ['#', '//']
    """
    return re.findall("//|.", comment)


def mark_of(line: str) -> str:
    """The mark that a line begins with as comments do; "" if it begins with none."""
    return next((mark for mark in MARKS if line.startswith(mark)), "")


def is_surely_comment(line: str) -> bool:
    """Whether a line begins with a mark that is hardly the beginning of an id: nothing, a blank or a mark follows."""
    mark = mark_of(line)
    behind = line.removeprefix(mark)
    return bool(mark) and (not behind.strip() or behind[0].isspace() or bool(mark_of(behind)))


def separator_of(word: str) -> str:
    r"""The characters of a separator that a setting names by a word, or as itself.

    >>> separator_of("semicolon"), separator_of("comma+blanks"), separator_of("|")
    (';', ', ', '|')
    """
    name = word.removesuffix(_WITH_BLANKS)
    blank = " " if name != word else ""
    return SEPARATORS.get(name, name) + blank


def word_of(separator: str) -> str:
    """The word for a separator in settings and messages."""
    words = {characters: word for word, characters in SEPARATORS.items()}
    if separator in words:
        return words[separator]
    return words[separator[0]] + _WITH_BLANKS if separator[:1] in words else separator


def open_packed(path: Path) -> IO[bytes] | gzip.GzipFile:
    """A file, unpacked while it is read."""
    if path.name.lower().endswith(".gz"):
        return gzip.open(path)
    if path.name.lower().endswith(".zst"):
        import pyarrow as pa

        return pa.input_stream(str(path), compression="zstd")
    return path.open("rb")


def first_bytes(path: Path, most: int) -> bytes:
    """The beginning of a text file: at most so many bytes."""
    size_of(path, GraphError)  # refuses pipes and devices
    try:
        with open_packed(path) as file:
            return file.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise GraphError(f"{path} cannot be read: {shortened(error)}; write it again") from None


def matrix_dialect(path: Path) -> Dialect:
    """The dialect of a Matrix Market file of edges; GraphError for any other matrix.

    https://math.nist.gov/MatrixMarket/formats.html: a banner, comments, a line `rows columns entries`, then entries.
    """
    lines = first_bytes(path, _LONGEST_BANNER).decode("latin-1").splitlines()
    banner = lines[0].lower().split() if lines else []
    if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"] or len(banner) != 5:
        raise GraphError(
            f"{path}: expected a first line such as '%%MatrixMarket matrix coordinate pattern symmetric', got "
            f"{quoted(lines[0] if lines else '')}; write it as a sparse matrix (scipy.io.mmwrite does)"
        )
    if banner[3] not in _FIELDS or banner[4] not in ("general", "symmetric"):
        raise GraphError(
            f"{path}: a {banner[4]} matrix of {banner[3]} values is not read; expected pattern, integer or real "
            "values, general or symmetric"
        )
    size = next((line.split() for line in lines[1:] if line.strip() and not line.lstrip().startswith("%")), [])
    if len(size) != 3 or not all(word.isdecimal() for word in size):
        raise GraphError(
            f"{path}: expected a line 'rows columns entries', got {quoted(' '.join(size))}; write it again"
        )
    if size[0] != size[1]:
        raise GraphError(
            f"{path}: the matrix has {size[0]} rows and {size[1]} columns, so they are different things; expected a "
            "square matrix: number the columns after the rows, or write an edge list with ids of your own"
        )
    return Dialect(" ", False, "%", 1, ("row", "column", *_FIELDS[banner[3]]), int(size[2]))
