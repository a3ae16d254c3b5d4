"""Text: the 20 newsgroups as they were written, and any corpus that is kept as svmlight rows, such as RCV1."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .files import fetched, find
from .records import Rows, Split, Texts

SOURCE = "qwone.com/~jason/20Newsgroups; fetch=True gets the data through scikit-learn"
PARTS = ("20news-bydate-train", "20news-bydate-test")
ARCHIVE = "20news-bydate.tar"


def load_newsgroups(folder: str | Path, *, fetch: bool = False) -> Split[Texts]:
    """Load 20 Newsgroups, cut by date: 11,314 and 7,532 posts in 20 groups.

    Parameters
    ----------
    folder
        Holds the folders 20news-bydate-train and 20news-bydate-test, with a folder a group and a file a post, or the
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

    from ..streams import open_stream

    if not Path(file).is_file():
        raise FileNotFoundError(
            f"{file}: there is no such file; svmlight files, RCV1 among them, are had from "
            "csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
        )
    with open_stream(file, "svmlight", dtype=dtype, zero_based=zero_based, qid=False) as stream:
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
        raise ValueError(f"{archive}: it is no whole tar archive: {error}") from None
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
