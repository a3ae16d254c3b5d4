"""MNIST's handwritten digits, from idx files: a magic number, the sizes, then one byte a pixel or label."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.validation import Array
from .records import Rows, Split, content, fetched, find

SOURCE = "yann.lecun.com/exdb/mnist or one of its many mirrors; fetch=True gets the data from OpenML"
BYTES = 0x08  # the idx code of an unsigned byte


def load_mnist(folder: str | Path, *, fetch: bool = False) -> Split[Rows]:
    """Load MNIST: 60,000 and 10,000 images of 28 x 28 pixels.

    Parameters
    ----------
    folder
        Holds train-images-idx3-ubyte, train-labels-idx1-ubyte and the two files t10k-..., packed by gzip or not.
    fetch
        Get the data from OpenML through scikit-learn, which keeps them in the folder.

    Returns
    -------
    Two parts of rows; X is uint8, (rows, 784), raw pixels from 0 to 255, and y the digits, int64.

    Examples
    --------
    >>> from proxstream.datasets import load_mnist
    >>> load_mnist("no/such")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    FileNotFoundError: no/such: no such folder; it should contain train-images-idx3-ubyte, from ...

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document recognition. 1998.
    """
    if fetch:
        return _from_openml(folder)
    return Split(_part(folder, "train"), _part(folder, "t10k"))


def _part(folder: str | Path, name: str) -> Rows:
    files = [
        find(folder, [f"{name}-{what}-idx{axes}-ubyte", f"{name}-{what}.idx{axes}-ubyte"], SOURCE)
        for what, axes in (("images", 3), ("labels", 1))
    ]
    images, labels = _idx(files[0], 3), _idx(files[1], 1)
    if len(images) != len(labels):
        raise ValueError(f"{files[1]}: {len(labels)} labels do not fit the {len(images)} images of {files[0].name}")
    return Rows(images.reshape(len(images), -1), labels.astype(np.int64))


def _idx(file: Path, axes: int) -> Array:
    raw = content(file)
    head = 4 + 4 * axes
    if len(raw) < head or raw[:4] != bytes([0, 0, BYTES, axes]):
        raise ValueError(f"{file}: it must begin as an idx file of bytes along {axes} axes, got {raw[:4].hex(' ')}")
    shape = tuple(int(size) for size in np.frombuffer(raw[4:head], ">u4"))
    if len(raw) - head != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{file}: {shape} bytes were promised, {len(raw) - head} are there")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(shape)


def _from_openml(folder: str | Path) -> Split[Rows]:
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml("mnist_784", version=1, as_frame=False, data_home=str(folder), parser="liac-arff")
    except OSError as error:
        raise fetched("MNIST", error) from None
    X, y = bunch.data.astype(np.uint8), bunch.target.astype(np.int64)
    return Split(Rows(X[:60_000], y[:60_000]), Rows(X[60_000:], y[60_000:]))
