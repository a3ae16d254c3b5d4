"""Texts for the parsers: valid lines of both formats, and such lines with bytes changed, cut and doubled."""

from __future__ import annotations

import random

NAMES = ["a", "b", "site", "x1", "longer_name_than_eight", "17", "007", "café", "日本", "a.b-c#d", "'q", "e5", "-3"]
NUMBERS = ["0", "1", "-1", "+2", "0.5", "1.25", ".5", "5.", "1e3", "-2.5E-3", "12345678901", "0.333333333", "1e-50"]
SHORT_NUMBERS = [
    "0",
    "1",
    "7",
    "-3",
    "0.122169",
    "-0.122169",
    "99999999",
    "-1234567",
    ".5",
    "12.25",
    "-.125",
    "0.0",
    "00.1",
]
ODD_NUMBERS = [*NUMBERS, "1e39", "1e999", "nan", "inf", "", "-", ".", "1e", "0x1", "9007199254740993", "4" * 30, "1_0"]
PIECES = [b" ", b"\t", b"\r", b"\n", b":", b"|", b"#", b"'", b".", b"e", b"-", b"qid:3", b"\0", b"\x01", b"\x7f"]
PIECES += [
    b"\x80",
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"9999999999",
    b"1 |",
    b"\xef\xbb\xbf",
]


def svmlight_line(rng: random.Random, odd: float = 0.0) -> bytes:
    numbers = ODD_NUMBERS if rng.random() < odd else NUMBERS
    words = [rng.choice(numbers)]
    if rng.random() < odd / 4:
        words.append(f"qid:{rng.randint(-3, 9)}")
    for _ in range(rng.choice([0, 1, 2, 5, 12])):
        index = rng.choice([rng.randint(0, 9), rng.randint(0, 2**31 - 1), 2**31 - 1])
        words.append(f"{index + (rng.random() < odd / 8)}:{rng.choice(numbers)}")
    comment = rng.choice(["", "", "", "# note", "#", " # ünï"])
    return (
        rng.choice(["", " "]) + rng.choice([" ", "  ", "\t"]).join(words) + comment + rng.choice(["", "\r"])
    ).encode()


def plain_line(rng: random.Random, odd: float = 0.0) -> bytes:
    """Return a line of which whole windows are read at once, unless an odd value or mistake is among them."""
    words = [rng.choice(["1", "-1", "+1", "0", "2.5", "-0.25", "1e-3"])]
    for _ in range(rng.choice([0, 1, 3, 9, 20])):
        value = rng.choice(SHORT_NUMBERS if rng.random() > odd / 4 else NUMBERS)
        words.append(f"{rng.randrange(10 ** rng.randint(1, 8))}:{value}")
    return (" ".join(words) + rng.choice(["", "", "", " ", "\r"])).encode()


def vw_line(rng: random.Random, odd: float = 0.0) -> bytes:
    numbers = ODD_NUMBERS if rng.random() < odd else NUMBERS
    head = rng.choice(["", "1 ", "-1 2 ", "0.5 1 0 ", "1 'tag ", "'tag", "1 tag", "-1 0.25 'tag", " 1  "])
    line = head
    for _ in range(rng.choice([1, 1, 2, 4])):
        line += "|" + rng.choice(["", rng.choice(NAMES), f"{rng.choice(NAMES)}:{rng.choice(numbers)}"])
        for _ in range(rng.choice([0, 1, 2, 6])):
            line += rng.choice([" ", "  ", "\t"]) + rng.choice(NAMES)
            line += rng.choice(["", "", f":{rng.choice(numbers)}"])
        line += rng.choice(["", " "])
    return (line + rng.choice(["", "\r"])).encode()


LINES = {"svmlight": svmlight_line, "plain": plain_line, "vw": vw_line}


def mutated(text: bytes, rng: random.Random) -> bytes:
    """Change a text in a few places."""
    changed = bytearray(text)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        at = rng.randint(0, len(changed))
        what = rng.randrange(5)
        if what == 0:
            changed[at:at] = rng.choice(PIECES)
        elif what == 1:
            del changed[at : at + rng.choice([1, 1, 4, 20])]
        elif what == 2 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif what == 3:
            changed[at:at] = changed[rng.randint(0, at) : at]
        else:
            changed[at : at + 1] = rng.choice(PIECES)
    return bytes(changed)


def text(format: str, rng: random.Random, odd: float = 0.3) -> bytes:
    """Return a few lines, most of them good."""
    lines = [LINES[format](rng, odd) for _ in range(rng.choice([0, 1, 2, 6, 15]))]
    return mutated(b"\n".join(lines) + rng.choice([b"", b"\n"]), rng)
