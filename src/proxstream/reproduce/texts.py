"""Texts as 0/1 rows: words and pairs of neighbouring words, in categories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.validation import Array
from ..datasets import load_newsgroups, load_text

LEAST_ROWS = 30  # that a category of a file needs, so that a quarter of them is informative
EMPTY_LINE = re.compile(r"(\r?\n|\t)\1")


class Corpus(NamedTuple):
    """0/1 rows, the category of each, and the categories' names."""

    X: Any
    y: Array
    names: Sequence[str]
    description: str


def bigrams(texts: Sequence[str]) -> Any:
    """Return 0/1 rows (CSR, float32) of the words of two characters or more and of the pairs of neighbours among them.

    What occurs in one text alone is left out: it could never help to predict another.

    >>> bigrams(["red green", "green blue", "red green"]).toarray()
    array([[1., 1., 1.],
           [1., 0., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    from sklearn.feature_extraction.text import CountVectorizer

    made = CountVectorizer(binary=True, ngram_range=(1, 2), min_df=2, dtype=np.float32).fit_transform(texts).tocsr()
    made.sort_indices()
    return made


def body(post: str) -> str:
    """Return what follows a post's head, that is its first empty line; some copies have tabs for ends of lines.

    >>> body("From: a\\nSubject: b\\n\\nWords\\n\\nand words"), body("From: a\\t\\tWords")
    ('Words\\n\\nand words', 'Words')
    """
    head = EMPTY_LINE.search(post)
    return post[head.end() :] if head else post


def newsgroups(folder: Path) -> Corpus:
    """Return all posts, without their heads, in the seven top-level groups."""
    posts = load_newsgroups(folder)
    texts = [body(text) for part in (posts.train, posts.test) for text in part.texts]
    group = np.concatenate([posts.train.y, posts.test.y])
    tops = [name.partition(".")[0] for name in posts.train.names]
    names = sorted(set(tops))
    X = bigrams(texts)
    description = f"20 Newsgroups, {len(texts):,} posts in {len(names)} top-level groups, {X.shape[1]:,} features"
    return Corpus(X, np.array([names.index(top) for top in tops])[group], names, description)


def from_file(file: Path) -> Corpus:
    """Return the rows of an svmlight file, each value that is not 0 as 1; its labels are the categories.

    Of two labels one category is made, the larger label's.
    """
    rows = load_text(file, dtype=np.float32)
    X = rows.X.copy()
    X.eliminate_zeros()
    X.data[:] = 1.0
    labels, y, counts = np.unique(rows.y, return_inverse=True, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"{file}: two categories are needed, got the label {labels[0]:g} alone")
    chosen = [1] if len(labels) == 2 else [i for i in range(len(labels)) if counts[i] >= LEAST_ROWS]
    new = np.full(len(labels), -1)
    new[chosen] = np.arange(len(chosen))
    names = [f"{labels[i]:g}" for i in chosen]
    description = f"{file.name}, {len(y):,} rows, {X.shape[1]:,} features, {len(names)} categories"
    return Corpus(X, new[y], names, description)


def generated(random: np.random.Generator, n_texts: int = 1500) -> Corpus:
    """Return texts of three groups. Words follow Zipf's law; a tenth of them are the group's own."""
    names, vocabulary, length = ("a", "b", "c"), 3000, 40
    y = random.integers(len(names), size=n_texts)
    chances = 1.0 / np.arange(1, vocabulary + 1)
    words = random.choice(vocabulary, size=(n_texts, length), p=chances / chances.sum())
    own = random.random((n_texts, length)) < 0.1
    theirs = vocabulary + 300 * y[:, None] + random.geometric(0.02, size=(n_texts, length)).clip(max=299)
    X = bigrams([" ".join(f"w{word}" for word in row) for row in np.where(own, theirs, words)])
    return Corpus(X, y, names, f"generated texts, {n_texts:,} in {len(names)} groups, {X.shape[1]:,} features")
