"""Well-known data sets, read from a folder that the user names: what the papers' experiments run on.

Nothing is shipped and nothing is downloaded unless `fetch=True` asks for it. A loader returns a `Split` of two parts,
`train` and `test`; a file that is missing is an error that names the folder, the file and where to get such data.

| loader | files | a part is |
|---|---|---|
| `load_mnist` | the four idx files | `Rows`: pixels and digits |
| `load_adult`, `load_census` | comma-separated rows of the UCI repository | `Table`: named columns and labels |
| `load_newsgroups` | the archive "20news-bydate", or its folders | `Texts` |
| `load_text` | one svmlight file (RCV1, a9a, ...) | `Rows` |
| `load_ranking` | svmlight with query ids or query sizes | `Ranked` |
"""

from __future__ import annotations

from .images import load_mnist
from .records import Ranked, Rows, Split, Table, Texts
from .tables import load_adult, load_census
from .text import load_newsgroups, load_ranking, load_text

__all__ = [
    "Ranked",
    "Rows",
    "Split",
    "Table",
    "Texts",
    "load_adult",
    "load_census",
    "load_mnist",
    "load_newsgroups",
    "load_ranking",
    "load_text",
]
