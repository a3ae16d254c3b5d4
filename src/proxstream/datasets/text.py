"""Text: the 20 newsgroups, corpora as svmlight rows such as RCV1, and rows in queries (svmlight with query ids)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..core.validation import Array
from .records import Ranked, Rows, Split, Texts, fetched, find

SOURCE = "qwone.com/~jason/20Newsgroups; fetch=True gets the data through scikit-learn"
PARTS = ("20news-bydate-train", "20news-bydate-test")
ARCHIVE = "20news-bydate.tar"


def load_newsgroups(folder: str | Path, *, fetch: bool = False) -> Split[Texts]:
    """Load 20 Newsgroups, cut by date: 11,314 and 7,532 posts in 20 groups.

    Parameters
    ----------
    folder
        Contains 20news-bydate-train and 20news-bydate-test, with one folder per group and one file per post, or the
        archive 20news-bydate.tar.gz of the two.
    fetch
        Get the data through scikit-learn, which keeps them in the folder.

    Returns
    -------
    Two parts of texts in the order of their groups and numbers. `names` are the groups' names, of which the part before
    the first full stop is the top-level group.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from proxstream.datasets import load_newsgroups
    >>> folder = Path(mkdtemp())
    >>> for part in ("train", "test"):
    ...     (folder / f"20news-bydate-{part}" / "sci.space").mkdir(parents=True)
    ...     _ = (folder / f"20news-bydate-{part}" / "sci.space" / "7").write_text("Subject: gravity waves")
    >>> posts = load_newsgroups(folder).train
    >>> posts.texts, posts.names[posts.y[0]]
    (['Subject: gravity waves'], 'sci.space')

    References
    ----------
    K. Lang. Newsweeder: learning to filter netnews. International Conference on Machine Learning, 1995.
    """
    if fetch:
        return _from_sklearn(folder)
    place = Path(folder)
    if all((place / part).is_dir() for part in PARTS):
        posts = {part: dict(_files(place / part)) for part in PARTS}
    else:
        archive = find(place, [ARCHIVE], SOURCE, endings=(".gz", ""))
        posts = _unpacked(archive)
        for part in PARTS:
            if not posts[part]:
                raise ValueError(f"{archive}: it holds no posts in a folder {part}")
    names = tuple(sorted({group for part in PARTS for group, _ in posts[part]}))
    return Split(*(_texts(posts[part], names) for part in PARTS))


def load_text(file: str | Path, *, zero_based: bool = True, dtype: object = np.float64) -> Rows:
    """Load text, or anything else, that is kept as svmlight rows: `label index:value ...`.

    Parameters
    ----------
    file
        svmlight text, plain or packed by gzip, bz2, zstd or lz4. RCV1 is had in this form from the LIBSVM collection.
    zero_based
        How indices count; False subtracts 1.
    dtype
        Of the values.

    Returns
    -------
    Rows; X is a SciPy CSR matrix as wide as the largest index asks for.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from proxstream.datasets import load_text
    >>> file = Path(mkdtemp()) / "two.svm"
    >>> _ = file.write_text("+1 0:1 3:0.5\\n-1 1:1\\n")
    >>> rows = load_text(file)
    >>> rows.X.toarray(), rows.y
    (array([[1. , 0. , 0. , 0.5],
           [0. , 1. , 0. , 0. ]]), array([ 1., -1.]))

    References
    ----------
    D. Lewis, Y. Yang, T. Rose, F. Li. RCV1: a new benchmark collection for text categorization research. 2004.
    """
    from scipy.sparse import csr_matrix, vstack

    from ..io import open_stream

    if not Path(file).is_file():
        raise FileNotFoundError(
            f"{file}: no such file; get svmlight files, such as RCV1, from csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
        )
    with open_stream(file, "svmlight", dtype=dtype, zero_based=zero_based, qid=False, max_features=1 << 31) as stream:
        blocks = [chunk.rows for chunk in stream.chunks()]
    if not blocks:
        raise ValueError(f"{file}: it holds no rows")
    width = max(block.n_features for block in blocks)
    parts = [csr_matrix((block.data, block.indices, block.indptr), (block.n_rows, width)) for block in blocks]
    return Rows(vstack(parts, format="csr"), np.concatenate([block.y for block in blocks]))


def _files(place: Path) -> Iterator[tuple[tuple[str, str], str]]:
    for file in place.glob("*/*"):
        yield (file.parent.name, file.name), file.read_bytes().decode("latin-1")


def _unpacked(archive: Path) -> dict[str, dict[tuple[str, str], str]]:
    """Return the posts of each part by group and number, read from the archive without unpacking it on disk."""
    posts: dict[str, dict[tuple[str, str], str]] = {part: {} for part in PARTS}
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                part, *inside = Path(member.name).parts[-3:]
                stored = opened.extractfile(member) if part in posts and len(inside) == 2 else None
                if stored is not None:
                    posts[part][inside[0], inside[1]] = stored.read().decode("latin-1")
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{archive}: not a complete tar archive: {error}") from None
    return posts


def _texts(posts: dict[tuple[str, str], str], names: tuple[str, ...]) -> Texts:
    # Numbers in the order of their digits' count and value: 9 before 10.
    order = sorted(posts, key=lambda post: (post[0], len(post[1]), post[1]))
    return Texts([posts[post] for post in order], np.array([names.index(group) for group, _ in order]), names)


def _from_sklearn(folder: str | Path) -> Split[Texts]:
    from sklearn.datasets import fetch_20newsgroups

    parts = []
    for subset in ("train", "test"):
        try:
            bunch = fetch_20newsgroups(data_home=str(folder), subset=subset, shuffle=False)
        except OSError as error:
            raise fetched("20 Newsgroups", error) from None
        order = np.argsort(bunch.target, kind="stable")
        texts = [bunch.data[i] for i in order]
        parts.append(Texts(texts, bunch.target[order].astype(np.int64), tuple(bunch.target_names)))
    return Split(*parts)


RANKING_SOURCE = "microsoft/LightGBM, examples/lambdarank, or (train.txt, test.txt) from Microsoft's LETOR collections"
RANKING_FILES = {"train": ["rank.train", "train.txt"], "test": ["rank.test", "test.txt"]}


def load_ranking(folder: str | Path) -> Split[Ranked]:
    """Load rows in queries.

    Parameters
    ----------
    folder
        Holds rank.train and rank.test (or train.txt and test.txt): svmlight text with `qid:` in every row, or without
        and a file of the same name and `.query` beside it, which has the number of rows of each query in turn.

    Returns
    -------
    Two parts, of the same width.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from proxstream.datasets import load_ranking
    >>> folder = Path(mkdtemp())
    >>> for part in ("train", "test"):
    ...     _ = (folder / f"rank.{part}").write_text("2 1:0.5\\n0 1:0.1\\n1 2:1\\n")
    ...     _ = (folder / f"rank.{part}.query").write_text("2\\n1\\n")
    >>> load_ranking(folder).train.query
    array([0, 0, 1])
    """
    parts = [_part(folder, part) for part in RANKING_FILES]
    width = max(part.X.shape[1] for part in parts)
    for part in parts:
        part.X.resize(part.X.shape[0], width)
    return Split(*parts)


def _part(folder: str | Path, name: str) -> Ranked:
    file = find(folder, RANKING_FILES[name], RANKING_SOURCE)
    sizes = file.with_name(file.name.removesuffix(".gz") + ".query")
    rows = load_text(file)
    query = _of_sizes(sizes, file, len(rows)) if sizes.exists() else _of_rows(file)
    return Ranked(rows.X, rows.y, query)


def _of_sizes(sizes: Path, file: Path, n_rows: int) -> Array:
    try:
        counts = np.array(sizes.read_text().split(), dtype=np.int64)
    except ValueError as error:
        raise ValueError(f"{sizes}: it must hold the number of rows of each query: {error}") from None
    if counts.sum() != n_rows or (counts < 0).any():
        raise ValueError(f"{sizes}: the queries' sizes must add up to the {n_rows} rows of {file.name}")
    return np.repeat(np.arange(len(counts)), counts)


def _of_rows(file: Path) -> Array:
    from ..io import open_stream

    with open_stream(file, "svmlight") as stream:
        found = [chunk.qid for chunk in stream.chunks()]
    if any(qid is None for qid in found):
        beside = file.name.removesuffix(".gz") + ".query"
        raise ValueError(f"{file}: its rows have no qid, and there is no file {beside} next to it")
    return np.concatenate([qid for qid in found if qid is not None])
