#!/usr/bin/env python3
"""Offline byte-level BPE tokenizers in one file: standard library only, no network, no packages.

Use it from the shell, beside `corpus.json`:

    python3 -B tokenizer.py --output my-report.json
    python3 -B tokenizer.py --variant gpt2 --merges 64 --output my-gpt2-report.json

or from Python:

    >>> tokenizer = Tokenizer.train(["abab", "abc"], merge_budget=1)
    >>> tokenizer.encode("abab")                    # the pair (97, 98) became 258
    [258, 258]
    >>> tokenizer.decode([258, 99])
    'abc'
    >>> words = BPETokenizer.train(["hug", "hug", "pug", "hugs"], vocab_size=259, min_freq=1)
    >>> words.merges
    [('u', 'g'), ('h', 'ug'), ('p', 'ug')]
    >>> words.encode("hugs pug")
    [257, 82, 220, 258]

Terms
    id             an integer that stands for a token; `ids` is a list of them
    pair           two adjacent ids, (left, right)
    merge          a rule that replaces a pair by one new id; its rank is its place in the list of merges
    vocab          token string to id; a token string spells bytes in the byte alphabet (`bytes_to_unicode`)
    pre-token      a piece of text that no merge crosses; the GPT-2 expression cuts text into pre-tokens
    added token    a text that becomes one id before anything else looks at it; some of them are special
    special token  an added token that marks structure and that `skip_special` leaves out of decoded text

Two variants
    document  `Tokenizer`: merges over the bytes of a whole document, spaces and line ends included. Ids are
              the bytes 0 to 255, BOS 256, EOS 257, then merges from 258. It is small and bounded, made to be
              read, and compatible with neither GPT-2 nor tiktoken.
    gpt2      `BPETokenizer`: the ids of GPT-2 and SmolLM2, the merges of Hugging Face's trainer, and their
              `tokenizer.json`.

How it differs from textbook BPE: the alphabet is the 256 bytes, so no text is unknown; a tie between pairs
goes to the smallest (left id, right id), never to the one seen first; encoding replays frozen merges by rank
and counts nothing.

How it differs from Hugging Face tokenizers 0.23.3, on purpose: special tokens are cut out of the texts before
training; an added token decodes to its own text; an unknown id is an error; a file with a setting that is not
implemented is refused, never read as if the setting were not there.

Limits: the document variant holds 128 merges and learns from 256 KiB; of `tokenizer.json` exactly the subset
is read that `BPETokenizer.from_hf_json` lists; nothing is normalized, and nothing guards against prompt
injection.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import heapq
import io
import json
import math
import operator
import os
import re
import signal
import sys
import time
from array import array
from bisect import bisect_right
from collections import Counter, deque
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, NoReturn, Sequence

__version__ = "1.0.0"

Pair = tuple[int, int]
Rule = tuple[Pair, int]
Progress = Callable[[str, int, "int | None"], None]

BOS_ID, EOS_ID, FIRST_MERGE_ID = 256, 257, 258
MERGE_BUDGET = 16  # the document variant's default
MERGE_LIMIT = 128  # the document variant's bound
TRAIN_BYTES_LIMIT = 256 * 1024  # the same for its training text, all documents together, in UTF-8 bytes
# An encoder's bounds of what it remembers. Of 10 MB of text in many scripts or of code some 160,000 chunks are
# distinct: with 65,536 the second pass over code takes 1.6 times as long.
CACHE_CHUNKS, CACHE_WORDS = 1 << 18, 1 << 16  # entries
CACHE_BYTES = 32 << 20  # of each of the two, roughly
LONG_CHUNK, LONG_WORD = 128, 64  # characters; longer ones are not remembered
MANY_SYMBOLS = 100  # from here on a heap beats scanning a pre-token for the lowest rank
EXPLAINED_BYTES = 4096  # of one pre-token or document: `explain` shows all symbols after every merge
JOINED_PARTS = 1 << 16  # of bytes joined at a time
COUNTED_CHUNKS = 1_000_000  # distinct chunks of text kept while counting, before they become pre-tokens
BATCH_CHARACTERS = 500_000  # of text given to a worker process at a time
ALPHA = 0.1  # add-alpha smoothing of the report's baselines

# ======================================================================================================================
# Errors
# ======================================================================================================================


class TokenizerError(ValueError):
    """A value the kit cannot use: `where: what, got value; what is supported`."""


class FormatError(TokenizerError):
    """A file, payload, corpus or report is not what it has to be; the message begins with the place."""


class LimitError(TokenizerError):
    """A bound of the document variant is exceeded; the message names the limit and the value."""


def _show(value: Any) -> str:
    """Return `value` as JSON would write it, short enough for a one-line message."""
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"  # Python may refuse to write it in decimal
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _printable(key: Any) -> str:
    """Return a key for a one-line message: what would not show is escaped, and a long one is cut."""
    text = key if isinstance(key, str) and key.isprintable() else ascii(key).strip("'")
    return text if len(text) <= 80 else text[:77] + "..."


def _need_text(where: str, value: Any) -> str:
    """Return `value`, which has to be a str (TypeError) without lone surrogates (ValueError)."""
    if not isinstance(value, str):
        raise TypeError(f"{where}: got {type(value).__name__}; only str is supported")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _surrogate_error(where, error.object, error.start) from None
    return value


def _surrogate_error(where: str, text: str, position: int) -> TokenizerError:
    return TokenizerError(
        f"{where}: lone surrogate, got U+{ord(text[position]):04X} at position {position}; "
        "only text that UTF-8 can encode is supported"
    )


def _need_texts(where: str, values: Iterable[str]) -> Iterable[str]:
    """Return `values`, refusing one text where many are expected: it would be read character by character."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{where}: got {type(values).__name__}; only an iterable of str is supported")
    return values


def _need_integer(where: str, value: Any) -> int:
    """Return `value` as an int: any integer type, NumPy's included, but neither bool nor float."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{where}: got {type(value).__name__} {_show(value)}; only integers are supported")


# ======================================================================================================================
# The three core functions: short, plain and naive. They are the definition; `starter.py` asks for them.
# ======================================================================================================================


def pair_counts(documents: Iterable[Sequence[int]]) -> dict[Pair, int]:
    """Count every adjacent pair inside each sequence of ids.

    Overlaps count, so `[97, 97, 97, 97]` holds (97, 97) three times, although a merge replaces it only
    twice. No pair spans two documents.

    >>> pair_counts([[97, 98, 97, 98]])
    {(97, 98): 2, (98, 97): 1}

    Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units", 2016.
    """
    counts: dict[Pair, int] = {}
    for ids in documents:
        for pair in zip(ids, ids[1:]):
            counts[pair] = counts.get(pair, 0) + 1
    return counts


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Return a copy of `ids` with every occurrence of `pair` replaced, left to right without overlap.

    An id that was replaced is used up, so three equal ids give one new id and one old. The argument is not
    changed, and a new id is not looked at again.

    >>> merge_pair([97, 98, 97, 98], (97, 98), 258)
    [258, 258]
    >>> merge_pair([97, 97, 97], (97, 97), 258)
    [258, 97]
    """
    merged, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            merged.append(new_id)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


def apply_merges(ids: Sequence[int], merges: Sequence[Rule]) -> list[int]:
    """Apply frozen rules `((left, right), new_id)` to `ids`, each in turn, in rank order.

    Nothing is counted anew: the input's own frequencies would make another tokenizer.

    >>> apply_merges([97, 98, 99], [((98, 99), 258), ((97, 258), 259)])
    [259]
    """
    ids = list(ids)
    for pair, new_id in merges:
        ids = merge_pair(ids, pair, new_id)
    return ids


class Core(NamedTuple):
    """The three functions that training, encoding and the report stand on, so that others can be put in."""

    pair_counts: Callable[[Iterable[Sequence[int]]], dict[Pair, int]] = pair_counts
    merge_pair: Callable[[Sequence[int], Pair, int], list[int]] = merge_pair
    apply_merges: Callable[[Sequence[int], Sequence[Rule]], list[int]] = apply_merges


CORE = Core()

# ======================================================================================================================
# Characters and pre-tokens
# ======================================================================================================================

# The 25 White_Space code points. `str.isspace` and `\s` of `re` also take U+001C to U+001F: not used here.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


# Three sizes of text, by the code point that none of its characters exceeds. `re` tries a class with hundreds of
# ranges above U+FFFF range by range for each character, so texts without such characters use smaller expressions.
_ASCII, _BMP, _ALL = 0x7F, 0xFFFF, 0x10FFFF
_beyond_bmp = re.compile("[\U00010000-\U0010ffff]").search


def _top(text: str) -> int:
    return _ASCII if text.isascii() else _ALL if _beyond_bmp(text) else _BMP


@lru_cache(maxsize=None)
def _byte_symbols() -> str:
    """Return the 256 characters that stand for the bytes 0 to 255, in byte order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))


def bytes_to_unicode() -> dict[int, str]:
    """Return the byte alphabet: a printable character for each of the 256 bytes.

    Printable Latin-1 bytes stand for themselves and the others, in order, for U+0100 onwards: the space is
    `Ġ` and the newline `Ċ`. It is not Latin-1, and a text's own `Ġ` is two bytes like any other.

    Source: GPT-2, `encoder.py`, function `bytes_to_unicode`.
    """
    return dict(enumerate(_byte_symbols()))


def unicode_to_bytes() -> dict[str, int]:
    """Return the inverse of `bytes_to_unicode`: the byte for each character of the byte alphabet."""
    return {symbol: byte for byte, symbol in enumerate(_byte_symbols())}


def _to_symbols(data: bytes) -> str:
    """Spell `data` in the byte alphabet."""
    return data.decode("latin-1").translate(_to_symbols_table())


@lru_cache(maxsize=None)
def _to_symbols_table() -> dict[int, str]:
    return dict(enumerate(_byte_symbols()))


@lru_cache(maxsize=None)
def _from_symbols_table() -> Any:
    return codecs.charmap_build(_byte_symbols())  # as the standard library's own 8-bit encodings do


def _from_symbols(token: str) -> bytes:
    """Return the bytes that `token`, all of it in the byte alphabet, spells."""
    return codecs.charmap_encode(token, "strict", _from_symbols_table())[0]


@lru_cache(maxsize=None)
def _class_bounds(name: str) -> list[int]:
    """Unpack a frozen class: [first, past the last, first, ...] of its ranges, ascending.

    `name` is "letters" or "numbers" (Unicode 16.0) or "digits" (the numbers of Unicode 17.0).
    """
    import binascii
    import zlib

    if name == "digits":
        return sorted(_class_bounds("numbers") + list(_DIGITS_SINCE_17))
    bounds, value, shift, last = [], 0, 0, 0
    for byte in zlib.decompress(binascii.a2b_base64({"letters": _LETTERS, "numbers": _NUMBERS}[name])):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            last += value
            bounds.append(last)
            value = shift = 0
    return bounds


def _class_pattern(name: str, top: int = _ALL) -> str:
    """Return a frozen class up to the code point `top` as the inside of a character set of `re`."""
    return _pattern(_class_bounds(name), top)


def _pattern(bounds: Sequence[int], top: int = _ALL) -> str:
    """Return ranges [first, past the last, ...] up to `top` as the inside of a character set of `re`."""
    return "".join(f"{chr(a)}-{chr(min(b - 1, top))}" for a, b in zip(bounds[::2], bounds[1::2]) if a <= top)


def _code_point(ch: str) -> int:
    if not isinstance(ch, str):
        raise TypeError(f"ch: got {type(ch).__name__}; only str is supported")
    if len(ch) != 1:
        raise TokenizerError(f"ch: got {_show(ch)}; only a single character is supported")
    return ord(ch)


def _in_class(name: str, ch: str) -> bool:
    return bisect_right(_class_bounds(name), _code_point(ch)) % 2 == 1


def is_space(ch: str) -> bool:
    """Tell whether `ch` is one of the 25 White_Space code points.

    U+001C to U+001F are not, although `str.isspace` takes them; U+200B is not either.

    Source: Unicode White_Space, as Hugging Face tokenizers 0.23.3 and tiktoken 0.14.0 have it.
    """
    return re.match(f"[{_SPACES}]", chr(_code_point(ch))) is not None


def is_letter(ch: str) -> bool:
    """Tell whether `ch` is a letter: general category L* of Unicode 16.0, whatever Python runs.

    A combining mark (M*) is none, so an accent that was typed separately splits a word.

    Source: Hugging Face tokenizers 0.23.3, measured on every code point.
    """
    return _in_class("letters", ch)


def is_number(ch: str) -> bool:
    """Tell whether `ch` is a number: general category N* of Unicode 16.0, whatever Python runs.

    `½` and `②` are numbers; the numerals that Chinese writes as letters are letters.

    Source: Hugging Face tokenizers 0.23.3, measured on every code point.
    """
    return _in_class("numbers", ch)


@lru_cache(maxsize=None)
def _gpt2_expression(top: int = _ALL) -> re.Pattern[str]:
    """Compile the GPT-2 expression over the frozen classes, for texts without code points above `top`.

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+
    """
    letters, numbers = _class_pattern("letters", top), _class_pattern("numbers", top)
    return re.compile(
        f"'(?:[stmd]|re|ve|ll)| ?[{letters}]+| ?[{numbers}]+| ?[^{_SPACES}{letters}{numbers}]+"
        f"|[{_SPACES}]+(?![^{_SPACES}])|[{_SPACES}]+"
    )


def pretokenize_gpt2(text: str) -> list[str]:
    """Cut `text` into pre-tokens by the GPT-2 expression; joined, they are the text, and none is empty.

    A run of white space before a word gives up its last character, and only U+0020 then leads the word: a
    tab stays alone. Contractions are lower case only.

    >>> pretokenize_gpt2("I'm   here!!\\n")
    ['I', "'m", '  ', ' here', '!!', '\\n']

    Source: GPT-2, `encoder.py`; classes as in `is_space`, `is_letter` and `is_number`.
    """
    return _gpt2_expression(_top(_need_text("text", text))).findall(text)


@lru_cache(maxsize=None)
def _digits_expression(individual: bool) -> re.Pattern[str]:
    digits = _class_pattern("digits")
    return re.compile(f"[{digits}]|[^{digits}]+" if individual else f"[{digits}]+|[^{digits}]+")


def split_digits(text: str, individual: bool = True) -> list[str]:
    """Cut `text` at numbers: each number character a piece of its own, or each run of them.

    It runs before the GPT-2 expression, which then sees each piece alone: that is why SmolLM2 spells `2024`
    as four tokens and keeps both spaces of `a  1` together.

    >>> split_digits("in 2024")
    ['in ', '2', '0', '2', '4']
    >>> split_digits("in 2024", individual=False)
    ['in ', '2024']

    Source: the Digits step of Hugging Face tokenizers 0.23.3, whose numbers are N* of Unicode 17.0, not 16.0.
    """
    return _digits_expression(bool(individual)).findall(_need_text("text", text))


# ---- fast splitting: texts are cut into chunks that are remembered, and new chunks are split together ----


@lru_cache(maxsize=None)
def _chunk_expression(top: int = _ALL, digits: bool | None = None) -> re.Pattern[str]:
    """Compile the expression that cuts a text into chunks whose pre-tokens, put together, are those of the text.

    The boundary lemma: a pre-token ends before every white-space character that follows another character,
    whatever comes after, since runs of letters, numbers and others hold no white space but a leading U+0020, and
    a run of white space starts there. The last white-space character of a run goes to the chunk of the word
    behind it, which may take it as a leading space. A chunk is cheap to find and worth remembering: most are a
    word with its punctuation. A Digits step (`digits` not None) runs before the expression, so white space before
    a number stays whole, and the number begins a chunk.
    """
    if digits is None:
        return re.compile(f"(?s:.)[^{_SPACES}]+|[{_SPACES}]+(?![^{_SPACES}])|(?s:.)")
    numbers = _class_pattern("digits", top)
    return re.compile(
        f"[{_SPACES}]?[^{_SPACES}{numbers}][^{_SPACES}]*|[{_SPACES}]+(?![^{_SPACES}{numbers}])|[^{_SPACES}]+"
    )


# Stands between chunks that are split together. No text holds it: a lone surrogate is refused.
_GAP = "\ud800"


def _joined_expression(
    top: int = _ALL, digits: bool | None = None, meeting: Sequence[Sequence[int]] | None = None
) -> re.Pattern[str]:
    """Compile the expression that splits chunks joined by `_GAP`: what it finds is what `_gpt2_expression`, after
    the Digits step, finds in each chunk alone, with a `_GAP` between two of them.

    A gap ends the text for the run of white space before it, and so does a number where there is a Digits step,
    which also keeps numbers from a leading space. Code points that only the Digits step takes for numbers are
    pieces of their own. `meeting` (see `_meeting_letters`) cuts runs of letters where no merge reaches across.
    """
    letters, numbers = _class_pattern("letters", top), _class_pattern("numbers", top)
    late, ends, number = "", _GAP, f" ?[{numbers}]+"
    if digits is not None:
        late = _pattern(_DIGITS_SINCE_17, top)
        many = "" if digits else "+"
        ends, number = _GAP + numbers + late, f"[{numbers}]{many}" + (f"|[{late}]{many}" if late else "")
    word = f" ?[{letters}]+"
    if meeting:
        beyond = _pattern([bound for bound in _class_bounds("letters") if bound > _BMP], top)
        left, both, right = (_pattern(bounds) + beyond for bounds in meeting)
        word = f" ?[{left}][{both}]*[{right}]| ?[{letters}]"
    return re.compile(
        f"'(?:[stmd]|re|ve|ll)|{word}|{number}| ?[^{_SPACES}{letters}{numbers}{late}{_GAP}]+"
        f"|[{_SPACES}]+(?![^{_SPACES}{ends}])|[{_SPACES}{_GAP}]"
    )


# ======================================================================================================================
# Training
# ======================================================================================================================


class Merge(NamedTuple):
    """One step of training: the pair, the id it became, and how often it stood there when it was chosen."""

    pair: Pair
    id: int
    count: int


def train_merges(
    documents: Iterable[Sequence[int]],
    budget: int,
    *,
    first_id: int = FIRST_MERGE_ID,
    min_count: int = 2,
    core: Core = CORE,
) -> list[Merge]:
    """Learn at most `budget` merges from sequences of ids: count, choose, replace, and count anew.

    The most frequent pair wins, on a tie the smallest (left id, right id). It stops early when no pair
    occurs `min_count` times. `core` gives the functions to use; nothing else counts or replaces. This is the
    definition of training for both variants: the document variant runs it, and `BPETokenizer.train` gives
    what it would give on one sequence for each occurrence of a pre-token.

    >>> train_merges([[97, 98, 97, 98]], 1)
    [Merge(pair=(97, 98), id=258, count=2)]
    """
    sequences, learned = list(documents), []
    for new_id in range(first_id, first_id + int(budget)):
        counts = core.pair_counts(sequences)
        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if pair is None or counts[pair] < min_count:
            break
        learned.append(Merge(pair, new_id, counts[pair]))
        sequences = [core.merge_pair(ids, pair, new_id) for ids in sequences]
    return learned


def count_pretokens(
    texts: Iterable[str], specials: Sequence[str] = (), *, workers: int = 1, progress: Progress | None = None
) -> Counter[str]:
    """Count the pre-tokens of `texts`: the first half of `BPETokenizer.train`.

    The specials are cut out first, leftmost-longest, and each remaining piece is a text of its own. Counts
    from many machines add up: sum them and hand the sum to `BPETokenizer.train_from_counts`. `workers` and
    `progress` are those of `train`.

    >>> count_pretokens(["a b", "a"])
    Counter({'a': 2, ' b': 1})
    """
    specials = _checked_specials(specials)
    report = _Throttle(progress, "count")
    texts = report.each(_checked_texts(texts))
    counts: Counter[str] = Counter()
    if _need_workers(workers) == 1:
        _count_texts(texts, specials, counts)
    else:
        for part in _in_processes(_count_texts, _batches(texts), workers, specials):
            counts.update(part)
    report.finish()
    return counts


def _count_texts(texts: Iterable[str], specials: Sequence[str], counts: Counter[str] | None = None) -> Counter[str]:
    """Add the pre-tokens of `texts` to `counts`, pre-tokenizing each distinct chunk once."""
    counts = Counter() if counts is None else counts
    find, split = _chunk_expression().findall, _literal_expression(specials).split if specials else None
    chunks: Counter[str] = Counter()
    for text in texts:
        for piece in split(text)[::2] if split else (text,):  # the specials stand between
            chunks.update(find(piece))
        if len(chunks) > COUNTED_CHUNKS:
            _count_chunks(chunks, counts)
            chunks.clear()
    _count_chunks(chunks, counts)
    return counts


def _count_chunks(chunks: Mapping[str, int], counts: Counter[str]) -> None:
    get = counts.get
    for chunk, count in chunks.items():
        for pretoken in _gpt2_expression(_top(chunk)).findall(chunk):
            counts[pretoken] = get(pretoken, 0) + count


def _checked_texts(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(_need_texts("texts", texts)):
        yield _need_text(f"texts[{number}]", text)


def _literal_expression(contents: Iterable[str]) -> re.Pattern[str]:
    """Compile an expression that finds any of `contents`, leftmost and of those the longest.

    Its `split` gives the text between matches at even places and the matches at odd ones.
    """
    return re.compile("(" + "|".join(map(re.escape, sorted(contents, key=len, reverse=True))) + ")")


@lru_cache(maxsize=None)
def _symbol_ids(first: int = 0) -> list[int]:
    """Return the id of each byte when the byte symbols are numbered from `first` in code point order."""
    places = {symbol: place for place, symbol in enumerate(sorted(_byte_symbols()), first)}
    return [places[symbol] for symbol in _byte_symbols()]


def _merge_words(
    counts: Mapping[str, int], first_id: int, budget: int, min_freq: int, progress: Progress | None = None
) -> list[Pair]:
    """Learn merges from weighted pre-tokens; equals `train_merges` on one sequence for each occurrence.

    `first_id` follows the byte symbols, whose ids are the 256 before it. Two facts carry the speed. A word is a
    str with one character for each id, so that finding and replacing a pair is `str.partition`, and two pairs
    compare as strings the way (left id, right id) do. And a pair is born complete: all its occurrences come into
    being in the merge that makes the younger of its two tokens, and afterwards they can only disappear. So the
    list of words that hold a pair is made once, a count can only sink, and a pair born rarer than `min_freq` is
    forgotten at once.
    """
    symbols = {byte: chr(id) for byte, id in enumerate(_symbol_ids(first_id - 256))}
    words = [word.encode("utf-8").decode("latin-1").translate(symbols) for word in counts]
    weigh = list(counts.values()).__getitem__
    index = _index_pairs(words)
    count = {pair: sum(map(weigh, where)) for pair, where in index.items()}
    queue, merges, report = _PairQueue(count, min_freq), [], _Throttle(progress, "merge", budget)
    while len(merges) < budget and (pair := queue.pop()):
        if first_id + len(merges) > sys.maxunicode:
            raise LimitError(
                f"vocab_size: too many ids, got {first_id + budget}; at most {sys.maxunicode + 1} are supported"
            )
        for old, born, where in _replace(pair, chr(first_id + len(merges)), index.pop(pair), words):
            n = sum(map(weigh, where))
            if old in count:
                count[old] -= n
            if n >= min_freq:
                count[born] = n
                index[born] = tuple(where)  # unlike a list, no work for the garbage collector
                queue.push(born, n)
        del count[pair]
        merges.append((ord(pair[0]), ord(pair[1])))
        report(len(merges))
    report.finish()
    return merges


def _index_pairs(words: Iterable[str]) -> dict[str, Sequence[int]]:
    """Return for each pair the numbers of the words that hold it, once for each occurrence."""
    index: dict[tuple[str, str], list[int]] = {}
    for number, word in enumerate(words):
        for pair in zip(word, word[1:]):
            if pair in index:
                index[pair].append(number)
            else:
                index[pair] = [number]
    return {left + right: where for (left, right), where in index.items()}


def _replace(pair: str, new: str, where: Iterable[int], words: list[str]) -> list[tuple[str, str, list[int]]]:
    """Replace `pair` in the words that `where` names; return (pair gone, pair born, words), in order.

    A word is named once for each occurrence, one behind the other. A name may be out of date, as the occurrence
    went into another merge; then partition finds nothing. Each occurrence has a name of its own, so the leftmost
    one is replaced for each, and none is left over; in a long word all are replaced at the first name.
    """
    left, right = pair[0], pair[1]
    before: dict[str, list[int]] = {}
    after: dict[str, list[int]] = {}
    done = -1
    for number in where:
        word = words[number]
        if len(word) > LONG_WORD:
            if number != done:
                words[number] = _replace_all(pair, new, number, word, before, after)
            done = number
            continue
        head, found, tail = word.partition(pair)
        if found:
            if head:
                before.setdefault(head[-1], []).append(number)
            if tail:
                after.setdefault(tail[0], []).append(number)
            words[number] = head + new + tail
    # In a b a b the second replacement finds `new` on its left and takes back the pair (new, a) of the first: that
    # is why the right neighbours come first.
    changes = [(right + ch, new + ch, numbers) for ch, numbers in after.items()]
    return changes + [(ch + left, ch + new, numbers) for ch, numbers in before.items()]


def _replace_all(
    pair: str, new: str, number: int, word: str, before: dict[str, list[int]], after: dict[str, list[int]]
) -> str:
    """Return `word` with every occurrence replaced, its neighbours noted as if one by one from the left.

    One by one would copy a long word for each occurrence: the square of its length.
    """
    parts = word.split(pair)
    for place, head in enumerate(parts[:-1]):
        tail = parts[place + 1]
        if head or place:  # what stands before is replaced already
            before.setdefault(head[-1:] or new, []).append(number)
        if tail or place + 2 < len(parts):  # what is behind is not
            after.setdefault(tail[:1] or pair[0], []).append(number)
    return new.join(parts)


class _PairQueue:
    """Pairs, most frequent first, then smallest ids first; counts may sink while a pair waits.

    One bucket for each count; only the one being emptied is kept as a heap, and heaps of strings compare fast. A
    pair taken from a bucket whose count has sunk meanwhile moves to the bucket where it belongs now.
    """

    def __init__(self, count: dict[str, int], min_freq: int) -> None:
        self.count, self.min_freq = count, min_freq
        self.buckets: dict[int, list[str]] = {}
        self.levels: list[int] = []  # a heap of minus the count, one for each bucket
        self.level = 0  # the bucket being emptied
        self.current: list[str] = []
        for pair, n in count.items():
            self.push(pair, n)

    def push(self, pair: str, n: int) -> None:
        """Put a pair where its count belongs; below `min_freq` it is forgotten."""
        if n == self.level:
            heapq.heappush(self.current, pair)
        elif n in self.buckets:
            self.buckets[n].append(pair)
        elif n >= self.min_freq:
            self.buckets[n] = [pair]
            heapq.heappush(self.levels, -n)

    def pop(self) -> str | None:
        """Return the pair to merge next, or None when all are rarer than `min_freq`."""
        while True:
            while not self.current:
                if not self.levels:
                    return None
                self.level = -heapq.heappop(self.levels)
                self.current = self.buckets.pop(self.level)
                heapq.heapify(self.current)
            pair = heapq.heappop(self.current)
            if (n := self.count[pair]) == self.level:
                return pair
            self.push(pair, n)


# ---- progress and processes ----


class _Throttle:
    """Calls a progress function at most ten times a second, and once at the end."""

    def __init__(self, progress: Progress | None, stage: str, total: int | None = None) -> None:
        self.progress, self.stage, self.total = progress, stage, total
        self.done, self.due = 0, 0.0

    def __call__(self, done: int) -> None:
        self.done = done
        if self.progress and (now := time.monotonic()) >= self.due:
            self.due = now + 0.1
            self.progress(self.stage, done, self.total)

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items, counting them as they pass."""
        for number, item in enumerate(items, 1):
            yield item
            self(number)

    def finish(self) -> None:
        """Make the last call, with what was done in all."""
        if self.progress:
            self.progress(self.stage, self.done, self.total)


def _need_workers(workers: int) -> int:
    if _need_integer("workers", workers) < 1:
        raise TokenizerError(f"workers: got {_show(workers)}; at least 1 is supported")
    return workers


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of texts of at least BATCH_CHARACTERS together, the last one excepted."""
    batch, filled = [], 0
    for text in texts:
        batch.append(text)
        filled += len(text) + 100
        if filled >= BATCH_CHARACTERS:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def _in_processes(function: Callable[..., Any], batches: Iterable[Any], workers: int, *common: Any) -> Iterator[Any]:
    """Yield `function(batch, *common)` for each batch, in order, from `workers` processes.

    Only a few batches are read ahead, so memory does not follow the input.
    """
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

    pool = ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(function, common))
    waiting: deque[Any] = deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(_work, batch))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenExecutor:
        raise ChildProcessError("a worker process ended before its work was done") from None
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[Callable[..., Any], tuple[Any, ...]] | None = None  # in a worker process: what it was started for


def _start_worker(function: Callable[..., Any], common: tuple[Any, ...]) -> None:
    global _worker
    _worker = function, common
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which then ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _work(batch: Any) -> Any:
    function, common = _worker
    return function(batch, *common)


# ======================================================================================================================
# Merging: rule 4 of encoding with loaded merges
# ======================================================================================================================


def merge_by_rank(ids: Sequence[int], ranks: Mapping[Pair, tuple[int, int]]) -> list[int]:
    """Merge the adjacent pair of lowest rank, leftmost on a tie, one at a time, until none has a rank.

    `ranks` gives (rank, new id) for a pair. It is not merging from left to right, and it is not
    `apply_merges` either: a loaded file may rank a merge before one that makes its parts.

    >>> ranks = {(98, 99): (0, 256), (97, 98): (1, 257)}
    >>> merge_by_rank([97, 98, 99], ranks)
    [97, 256]

    Source: GPT-2, `encoder.py`, function `bpe`; ties as in Hugging Face tokenizers 0.23.3.
    """
    ids = list(ids)
    for _ in merge_steps(ids, ranks):
        pass
    return ids


def merge_steps(ids: list[int], ranks: Mapping[Pair, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge `ids` in place as `merge_by_rank` does, yielding (rank, place) after each merge."""
    while True:
        ranked = [(ranks[pair], i) for i, pair in enumerate(zip(ids, ids[1:])) if pair in ranks]
        if not ranked:
            return
        (rank, new_id), i = min(ranked)
        ids[i : i + 2] = [new_id]
        yield rank, i


# ---- fast encoding: equals `merge_by_rank` on each pre-token, remembers, and packs ids into bytes ----

_NO_RANK = 1 << 60  # later than every rank


class _Encoder:
    """From ordinary text to ids, the fast way: equals `merge_by_rank` on the symbols of each pre-token.

    A text is cut into chunks (`_chunk_expression`), and the ids of most chunks are remembered. The new chunks of
    a text are split into pre-tokens together, in one call (`_joined_expression`), and the ids of pre-tokens are
    remembered too, as one word stands in many chunks. Ids travel packed, two or four bytes each: joining,
    splitting and the final list are single calls into C, and the caches hold nothing that the garbage collector
    has to visit. What is remembered is only what would be computed again in the same way, so no id depends on
    what was encoded before; both caches are emptied when they are full, and long pieces stay out of them.
    """

    def __init__(
        self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], vocab_size: int, digits: bool | None
    ) -> None:
        self.merger, self.digits = _Merger(vocab, merges, vocab_size), digits
        self.chunks: dict[str, bytes] = {}
        self.chunk_bytes = 0
        self.words = _Words(self.merger)
        self.expressions: dict[int, tuple[Any, Any]] = {}

    def pack(self, text: str) -> bytes:
        """Return the packed ids of `text`. Raises UnicodeEncodeError for a lone surrogate."""
        chunks = self.findall(text)[0](text)
        parts: list[Any] = list(map(self.chunks.get, chunks))
        try:
            return _joined(parts)
        except TypeError:  # some are None: these chunks are new
            gaps = [place for place, part in enumerate(parts) if part is None]
        found = self.learn({chunks[place] for place in gaps})
        for place in gaps:
            parts[place] = found[chunks[place]]
        return _joined(parts)

    def learn(self, chunks: Collection[str]) -> dict[str, bytes]:
        """Return the packed ids of each chunk, and remember those that are not long."""
        text = "".join(chunks)
        text.encode("utf-8")  # refuses lone surrogates, the gap among them
        pretokens = self.findall(text)[1](_GAP.join(chunks))
        packed = _joined(list(map(self.words.__getitem__, pretokens)))
        found = keep = dict(zip(chunks, packed.split(self.merger.gap)))
        if len(max(chunks, key=len)) > LONG_CHUNK:
            keep = {chunk: ids for chunk, ids in found.items() if len(chunk) <= LONG_CHUNK}
        self.chunk_bytes += 2 * len(text) + len(packed) + 150 * len(found)  # what they take as objects, roughly
        if self.chunk_bytes > CACHE_BYTES or len(self.chunks) + len(keep) > CACHE_CHUNKS:
            self.chunks.clear()
            self.chunk_bytes = 0
        self.chunks.update(keep)
        return found

    def findall(self, text: str) -> tuple[Callable[[str], list[str]], Callable[[str], list[str]]]:
        """Return the two expressions for texts like `text`: into chunks, and from joined chunks into pre-tokens."""
        top = _top(text)
        if top not in self.expressions:
            meeting = None if top == _ASCII else self.merger.meeting  # all of ASCII's letters meet
            expressions = _chunk_expression(top, self.digits), _joined_expression(top, self.digits, meeting)
            self.expressions[top] = tuple(expression.findall for expression in expressions)  # type: ignore[assignment]
        return self.expressions[top]


class _Words(dict):  # type: ignore[type-arg]
    """From pre-token to packed ids; what is missing is merged, and remembered unless it is long."""

    def __init__(self, merger: _Merger) -> None:
        self.gap, self.encode = merger.gap, merger.word_encoder()
        self.bytes = 0

    def __missing__(self, word: str) -> bytes:
        packed = self.gap if word == _GAP else self.encode(word)
        if len(word) <= LONG_WORD:
            self.bytes += 2 * len(word) + len(packed) + 150
            if self.bytes > CACHE_BYTES or len(self) >= CACHE_WORDS:
                self.clear()
                self.bytes = 0
            self[word] = packed
        return packed


class _Merger:
    """From one pre-token to packed ids: the bytes that have a symbol, merged by rank, leftmost first on a tie."""

    def __init__(self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], vocab_size: int) -> None:
        self.size = size = vocab_size
        self.code = "H" if size <= 0xFF00 else "I"  # so that no packed ids hold the bytes of `gap`
        self.gap = b"\xff" * array(self.code).itemsize
        self.products = [left + right for left, right in merges]
        self.new_ids = list(map(vocab.__getitem__, self.products))
        self.rank = {vocab[left] * size + vocab[right]: rank for rank, (left, right) in enumerate(merges)}
        symbols = _byte_symbols()
        self.byte_ids = list(map(vocab.get, symbols))
        self.dropped = bytes(byte for byte in range(256) if self.byte_ids[byte] is None)
        places = unicode_to_bytes()
        self.byte_rank = {
            (places[left], places[right]): rank
            for rank, (left, right) in enumerate(merges)
            if left in places and right in places
        }

    def word_encoder(self) -> Callable[[str], bytes]:
        """Return the function from one pre-token to its packed ids; what it uses is bound once, as it runs for each
        new word."""
        size, rank, new_ids, code, dropped = self.size, self.rank.get, self.new_ids, self.code, self.dropped
        byte_ids, byte_rank, no_ranks = self.byte_ids.__getitem__, self.byte_rank.get, repeat(_NO_RANK)

        def _encode(word: str) -> bytes:
            data = word.encode("utf-8")
            if dropped:
                data = data.translate(None, dropped)
            ids: list[Any] = list(map(byte_ids, data))
            if len(ids) > MANY_SYMBOLS:
                return array(code, self.merge_many(ids)).tobytes()
            ranks = list(map(byte_rank, zip(data, data[1:]), no_ranks))  # of each adjacent pair, kept in step
            while ranks and (lowest := min(ranks)) != _NO_RANK:
                place = ranks.index(lowest)
                del ranks[place], ids[place]
                ids[place] = new_id = new_ids[lowest]
                if place:
                    ranks[place - 1] = rank(ids[place - 1] * size + new_id, _NO_RANK)
                if place < len(ranks):
                    ranks[place] = rank(new_id * size + ids[place + 1], _NO_RANK)
            return array(code, ids).tobytes()

        return _encode

    def merge_many(self, ids: list[int | None]) -> list[int]:
        """Return `ids` merged, by a heap of (rank, place) and links between neighbours: n log n where scanning for
        the lowest rank is quadratic."""
        size, new_ids, rank, n = self.size, self.new_ids, self.rank.get, len(ids)
        after, before = list(range(1, n + 1)), list(range(-1, n - 1))
        ranks = [rank(left * size + right) for left, right in zip(ids, ids[1:])]  # type: ignore[operator]
        heap = [found * n + place for place, found in enumerate(ranks) if found is not None]
        heapq.heapify(heap)
        while heap:
            lowest, i = divmod(heapq.heappop(heap), n)
            j = after[i]
            if ids[i] is None or j == n or rank(ids[i] * size + ids[j]) != lowest:  # type: ignore[operator]
                continue  # one of the two has become part of another token since
            ids[i], ids[j] = new_ids[lowest], None
            after[i] = k = after[j]
            if k < n:
                before[k] = i
            for a, b in (before[i], i), (i, k):
                if a >= 0 and b < n and (found := rank(ids[a] * size + ids[b])) is not None:  # type: ignore[operator]
                    heapq.heappush(heap, found * n + a)
        return [id for id in ids if id is not None]

    @cached_property
    def meeting(self) -> list[list[int]] | None:
        """What `_meeting_letters` finds in the products, or None where letters may lose bytes, which makes
        neighbours of bytes that were none."""
        if set(self.dropped).intersection(_LETTER_BYTES):
            return None
        return _meeting_letters(self.products)


_LETTER_BYTES = (
    *range(0x41, 0x5B),
    *range(0x61, 0x7B),
    *range(0x80, 0xC0),
    *range(0xC2, 0xF1),
)  # UTF-8 of letters


def _meeting_letters(tokens: Iterable[str]) -> list[list[int]]:
    """Return three sets of letters up to U+FFFF, as bounds: left, both, right. A merge can reach across two letters
    x y only if x is in left and y in right; both is what these share.

    A merge that reaches across makes a token with the end of x and the beginning of y. Such a token, decoded,
    shows x and y whole, or, where it begins inside x or ends inside y, their bytes as U+DC80 to U+DCFF. Runs of
    letters can be cut at all other places, where merging one side never looks at the other: most runs of Chinese
    or Korean fall into single characters, which are worth remembering. The sets may hold too much, never too
    little; ASCII is always in them, and what lies above U+FFFF counts as in them. It makes the first pass over text
    of many scripts 2.0 times as fast.
    """
    left, right = (bytearray(b"\1" * 0x80 + bytes(_BMP + 1 - 0x80)) for _ in range(2))  # a flag for each code point
    lines = _from_symbols(_to_symbols(b"\n").join(tokens)).decode("utf-8", "surrogateescape")
    pairs: set[tuple[str, str]] = set()
    for line in lines.split("\n"):
        if not line.isascii():
            pairs.update(zip(line, line[1:]))
    for x, y in pairs:
        if x != " " and not "\udc80" <= y < "\udcc0":  # a space only begins a run; the other is inside a character
            _flag(left, _letters_ending(x))
            _flag(right, _letters_beginning(y))
    letters, bounds = bytearray(_BMP + 1), _class_bounds("letters")
    for a, b in zip(bounds[::2], bounds[1::2]):
        _flag(letters, slice(a, b))
    kept = [int.from_bytes(flags, "little") for flags in (left, right, letters)]
    both = kept[0] & kept[1]
    return [_bounds_of(flags & kept[2]) for flags in (kept[0], both, kept[1])]


def _flag(flags: bytearray, points: slice) -> None:
    """Set the flags of some code points; what lies above U+FFFF has none."""
    flags[points] = b"\1" * len(range(*points.indices(len(flags))))


def _letters_ending(x: str) -> slice:
    """Return the code points up to U+FFFF that end with the byte that `x` stands for, or `x` itself."""
    return slice(0x80 + (ord(x) & 63), None, 64) if "\udc80" <= x <= "\udcff" else slice(ord(x), ord(x) + 1)


def _letters_beginning(y: str) -> slice:
    """Return the code points up to U+FFFF that begin with the byte that `y` stands for, or `y` itself."""
    if not "\udcc0" <= y <= "\udcef":
        return slice(ord(y), ord(y) + 1)
    bits = 6 if y < "\udce0" else 12
    first = (ord(y) & (0x3F >> bits // 6)) << bits
    return slice(first, first + (1 << bits))


def _bounds_of(flags: int) -> list[int]:
    """Return the ranges [first, past the last, ...] of the code points whose flag is set."""
    data = flags.to_bytes(_BMP + 1, "little")
    return [bound for found in re.finditer(b"\1+", data) for bound in found.span()]


# ======================================================================================================================
# The document variant
# ======================================================================================================================


class Tokenizer:
    """The document variant: merges over the bytes of a whole text, spaces and line ends included.

    `merges` is a sequence of `((left, right), new_id)` in rank order, ids from 258, as `apply_merges` takes
    them. Text that spells a control token stays ordinary text; only `bos=True` and `eos=True` add one.
    Bounds: 128 merges, and no token longer than 256 KiB, which training text could not teach.

    >>> Tokenizer([((97, 98), 258)]).encode("abc", bos=True)
    [256, 258, 99]
    """

    variant = "document"
    unk_id = None  # the alphabet is the 256 bytes: nothing is unknown
    special_ids = frozenset((BOS_ID, EOS_ID))
    _control = {BOS_ID: "⟨bos⟩", EOS_ID: "⟨eos⟩"}  # no merge can spell them: they leave the byte alphabet

    # ---- construction ----

    def __init__(self, merges: Iterable[Rule] = ()) -> None:
        self.merges = _checked_rules(merges)
        self.vocab_size = FIRST_MERGE_ID + len(self.merges)
        self._bytes = {byte: bytes([byte]) for byte in range(256)}
        for number, ((left, right), new_id) in enumerate(self.merges):
            self._bytes[new_id] = self._bytes[left] + self._bytes[right]
            if len(self._bytes[new_id]) > TRAIN_BYTES_LIMIT:
                raise LimitError(
                    f"merges[{number}]: token too long, got {len(self._bytes[new_id])} bytes; "
                    f"at most {TRAIN_BYTES_LIMIT} are supported"
                )

    @classmethod
    def train(cls, documents: Iterable[str], merge_budget: int = MERGE_BUDGET) -> Tokenizer:
        """Learn at most `merge_budget` merges from `documents`; no pair is counted across two of them.

        It stops early when no pair occurs twice; no documents give no merges. Raises LimitError for more
        than 128 merges or more than 256 KiB of text (UTF-8, all documents together).
        """
        sequences = training_sequences(documents, merge_budget)
        return cls([(merge.pair, merge.id) for merge in train_merges(sequences, merge_budget)])

    # ---- encoding ----

    def encode(self, text: str, *, bos: bool = False, eos: bool = False) -> list[int]:
        """Return the ids of `text`, between BOS and EOS where asked for.

        Raises TypeError for what is no str and ValueError for a lone surrogate, with its position.
        """
        ids = self.encode_bytes(_need_text("text", text).encode("utf-8"))
        return [BOS_ID] * bool(bos) + ids + [EOS_ID] * bool(eos)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Return the ids of `data`, any bytes at all, without framing."""
        return _apply_merges_to_bytes(_need_bytes(data), self.merges)

    def encode_batch(
        self, texts: Iterable[str], *, workers: int = 1, progress: Progress | None = None, **options: bool
    ) -> list[list[int]]:
        """Return the ids of each text; `options` are those of `encode`.

        `workers` processes encode, with the same result; `progress("encode", done, total or None)` is called at
        most ten times a second and once at the end.
        """
        total = len(texts) if isinstance(texts, Collection) else None
        report = _Throttle(progress, "encode", total)
        ids = list(self.encode_iter(report.each(_need_texts("texts", texts)), workers=workers, **options))
        report.finish()
        return ids

    def encode_iter(self, texts: Iterable[str], *, workers: int = 1, **options: bool) -> Iterator[list[int]]:
        """Yield the ids of each text, as `encode_batch` returns them; only a few texts are read ahead."""
        return (_unpack(packed, self._code) for packed in self._packed_iter(texts, workers, options))

    def _packed_iter(self, texts: Iterable[str], workers: int, options: dict[str, bool]) -> Iterator[bytes]:
        """Yield the ids of each text as bytes, which is how they come from the encoder and from worker processes."""
        if _need_workers(workers) == 1:
            return (self._packed(text, **options) for text in _need_texts("texts", texts))
        texts = map(_need_text, repeat("text"), _need_texts("texts", texts))
        return chain.from_iterable(_in_processes(_pack_texts, _batches(texts), workers, self, options))

    _code = "H"  # of `array`: how ids are packed

    def _packed(self, text: str, **options: bool) -> bytes:
        return array(self._code, self.encode(text, **options)).tobytes()

    def encode_with_offsets(self, text: str, **options: bool) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of `text` and for each the span (start, end) it comes from.

        Spans count code points of `text`, whose pieces are `text[start:end]`; a token inside a character spans
        that character, so spans may overlap. `options` are those of `encode` that frame nothing. Every character
        is covered but those whose bytes the vocabulary has no symbol for.

        Source: Hugging Face tokenizers 0.23.3 with `trim_offsets` false, but for the spans that it shifts after
        a dropped byte.
        """
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        start = 0
        for unit, added_id in self._units(_need_text("text", text), **options):
            if added_id is None:
                found = self._encode_unit(unit)
                ids += found
                spans += self._unit_spans(unit, found, start)
            else:
                ids.append(added_id)
                spans.append((start, start + len(unit)))
            start += len(unit)
        return ids, spans

    def _units(self, text: str) -> Iterator[tuple[str, int | None]]:
        """Yield what merges never cross, in order, with None; or an added token with its id."""
        yield text, None

    def _unit_spans(self, unit: str, ids: list[int], start: int) -> list[tuple[int, int]]:
        """Return the spans of the ids of one unit, which begins at `start`."""
        places = [
            start + n for n, ch in enumerate(unit) for byte in ch.encode("utf-8") if self._byte_ids[byte] is not None
        ]
        spans, done = [], 0
        for id in ids:
            end = done + len(self._bytes[id])
            spans.append((places[done], places[end - 1] + 1))
            done = end
        return spans

    _byte_ids: Sequence[int | None] = range(256)  # the id of each byte's symbol, or None

    def _encode_unit(self, unit: str) -> list[int]:
        """Return the ids of one unit that merges never cross."""
        return self.encode_bytes(unit.encode("utf-8"))

    def _unit_steps(self, ids: list[int]) -> Iterator[tuple[int, int]]:
        """Merge the symbols of one unit in place, yielding (rank, place) after each merge."""
        for rank, (pair, new_id) in enumerate(self.merges):
            place = 0
            while place + 1 < len(ids):
                if (ids[place], ids[place + 1]) == pair:
                    ids[place : place + 2] = [new_id]
                    yield rank, place
                place += 1

    def explain(self, text: str, **options: bool) -> dict[str, Any]:
        """Return how `text` becomes its ids, for people and machines: a JSON object.

        `pieces` are the units that merges never cross and the added tokens, each with its span in code points,
        its first symbols, every merge in the order it happens (rank, pair, id, place, and the symbols after it),
        and its ids. Symbols are token strings. `options` are those of `encode` that frame nothing. Raises
        LimitError for a unit of more than 4,096 bytes, as all steps grow with the square of its length.
        """
        pieces, start = [], 0
        for unit, added_id in self._units(_need_text("text", text), **options):
            if added_id is None:
                steps = self._explained_unit(unit)
            else:
                steps = {"dropped": [], "symbols": [unit], "merges": [], "ids": [added_id]}
            span = [start, start + len(unit)]
            pieces.append({"text": unit, "span": span, "added": added_id is not None, **steps})
            start += len(unit)
        ids = [id for piece in pieces for id in piece["ids"]]
        unit_name = "document" if self.variant == "document" else "pre-token"
        return {"text": text, "variant": self.variant, "unit": unit_name, "pieces": pieces, "ids": ids}

    def _explained_unit(self, unit: str) -> dict[str, Any]:
        data = unit.encode("utf-8")
        if len(data) > EXPLAINED_BYTES:
            raise LimitError(
                f"text: too long to show every step, got {len(data)} bytes that merges may join; "
                f"at most {EXPLAINED_BYTES} are supported"
            )
        dropped = [byte for byte in data if self._byte_ids[byte] is None]
        ids = [id for byte in data if (id := self._byte_ids[byte]) is not None]
        first = before = list(map(self.id_to_token, ids))
        merges = []
        for rank, place in self._unit_steps(ids):
            pair = before[place : place + 2]
            after = [*before[:place], "".join(pair), *before[place + 2 :]]
            merges.append({"rank": rank, "pair": pair, "id": ids[place], "place": place, "symbols": after})
            before = after
        return {"dropped": dropped, "symbols": first, "merges": merges, "ids": ids}

    # ---- decoding ----

    def decode(self, ids: Iterable[int], *, skip_special: bool = False, errors: str = "replace") -> str:
        """Return the text of `ids`: all bytes are joined first and decoded once, as a token may end inside a
        character. Invalid UTF-8 is treated as `errors` says, as by `bytes.decode`.

        Raises ValueError for an id out of range and, in the document variant, for BOS and EOS unless
        `skip_special`; TypeError for what is no integer (bool and float are none).
        """
        return self.decode_bytes(ids, skip_special=skip_special).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[int], *, skip_special: bool = False) -> bytes:
        """Return the bytes of all tokens, concatenated; with `skip_special`, special tokens vanish first."""
        ids = list(ids)
        if not {int}.issuperset(map(type, ids)):  # also keeps out True and 1.0, which a dict takes for 1
            ids = [_need_integer(f"ids[{position}]", value) for position, value in enumerate(ids)]
        content = [value for value in ids if value not in self.special_ids] if skip_special else ids
        try:
            return _joined(list(map(self._bytes.__getitem__, content)))
        except KeyError as error:
            raise self._id_error(f"ids[{ids.index(error.args[0])}]", error.args[0]) from None

    def decode_batch(self, batches: Iterable[Iterable[int]], **options: Any) -> list[str]:
        """Return the text of each sequence of ids; `options` are those of `decode`."""
        return [self.decode(ids, **options) for ids in batches]

    def decode_stream(
        self, ids: Iterable[int], *, skip_special: bool = False, errors: str = "replace"
    ) -> Iterator[str]:
        """Yield text as soon as it is complete; joined, it equals `decode` of all ids.

        No chunk is empty or ends inside a character; a genuine U+FFFD comes out at once like any other.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors)
        return self._stream(ids, decoder, skip_special)

    def _stream(self, ids: Iterable[int], decoder: Any, skip_special: bool) -> Iterator[str]:
        for position, given in enumerate(ids):
            value = given if type(given) is int else _need_integer(f"ids[{position}]", given)
            if skip_special and value in self.special_ids:
                continue
            if value not in self._bytes:
                raise self._id_error(f"ids[{position}]", value)
            if text := decoder.decode(self._bytes[value]):
                yield text
        if text := decoder.decode(b"", True):
            yield text

    def _id_error(self, where: str, value: int) -> TokenizerError:
        """Say why `value` has no bytes: it is out of range, or a control id."""
        if value in self.special_ids:
            return TokenizerError(
                f"{where}: control id, got {value} ({self.id_to_token(value)}); "
                "only content ids are supported here (decoding skips it with skip_special=True)"
            )
        return TokenizerError(
            f"{where}: id out of range, got {_show(value)}; "
            f"only 0 to {self.vocab_size - 1} are supported (vocabulary size {self.vocab_size})"
        )

    # ---- vocabulary ----

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one token; an added token's are the UTF-8 of its text.

        Raises ValueError for an id out of range and for BOS and EOS, which have none.
        """
        if (value := _need_integer("id", id)) not in self._bytes:
            raise self._id_error("id", value)
        return self._bytes[value]

    def id_to_token(self, id: int) -> str:
        """Return the token string of `id`: in the byte alphabet, `⟨bos⟩` or `⟨eos⟩`.

        Raises ValueError for an id out of range.
        """
        value = _need_integer("id", id)
        return self._control.get(value) or _to_symbols(self.token_bytes(value))

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token string, or None where the vocabulary has no such token."""
        if not isinstance(token, str):
            raise TypeError(f"token: got {type(token).__name__}; only str is supported")
        return next((id for id in range(self.vocab_size) if self.id_to_token(id) == token), None)

    # ---- serialization ----

    def to_payload(self) -> dict[str, Any]:
        """Return the tokenizer as a JSON object with the SHA-256 of its canonical form.

        The hash tells one payload from another; it is no signature, and says nothing of who made it.
        """
        return _with_hash(
            {
                "format": PAYLOAD_FORMAT,
                "format_version": PAYLOAD_VERSION,
                "variant": self.variant,
                "bos_id": BOS_ID,
                "eos_id": EOS_ID,
                "first_merge_id": FIRST_MERGE_ID,
                "merges": [[left, right, new_id] for (left, right), new_id in self.merges],
            }
        )

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Tokenizer:
        """Return the tokenizer of a payload, of the class that its variant names.

        Whatever is malformed is a ValueError that names the field: a missing or unknown key, a wrong type
        (a bool is no integer), ids out of order, a rule that uses 256, 257 or an id not yet made, a pair
        twice, a wrong hash, another version.
        """
        found = _payload_class(payload)
        if cls.variant == found.variant:
            found = cls  # a subclass loads as itself
        elif not issubclass(found, cls):
            _refuse("variant", payload["variant"], f"{cls.variant!r} (by {cls.__name__}.from_payload)")
        tokenizer = found._from_payload(payload)
        _check_hash(payload)
        return tokenizer

    @classmethod
    def _from_payload(cls, payload: Mapping[str, Any]) -> Tokenizer:
        _need_keys("", payload, _DOCUMENT_KEYS)
        for key, value in (("bos_id", BOS_ID), ("eos_id", EOS_ID), ("first_merge_id", FIRST_MERGE_ID)):
            _need_value(key, payload[key], value)
        rows = _need_type("merges", payload["merges"], list)
        for number, row in enumerate(rows):
            if type(row) is not list or [type(value) for value in row] != [int] * 3:
                _refuse(f"merges[{number}]", row, "[left, right, id], three integers,")
        return cls([((left, right), new_id) for left, right, new_id in rows])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the payload to `path` as JSON. FileExistsError where something is there already."""
        write_new(path, format_json(self.to_payload()) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Return the tokenizer of a payload file, of the class that its variant names."""
        name, payload = _read_json(path)
        try:
            return cls.from_payload(payload)
        except TokenizerError as error:
            raise FormatError(f"{name}: {error}") from None

    def _arguments(self) -> tuple[Any, ...]:
        """Return what the constructor needs to make an equal tokenizer: all that is pickled or compared."""
        return (self.merges,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self._arguments() == other._arguments()  # those of the two variants differ in number

    __hash__ = None  # type: ignore[assignment]  # merges and vocab are lists and dicts

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size}, merges={len(self.merges)})"


_DOCUMENT_KEYS = (
    "format", "format_version", "variant", "bos_id", "eos_id", "first_merge_id", "merges", "sha256"
)  # fmt: skip


def _pack_texts(texts: list[str], tokenizer: Tokenizer, options: dict[str, bool]) -> list[bytes]:
    """Encode in a worker process."""
    return [tokenizer._packed(text, **options) for text in texts]


def _joined(parts: list[bytes]) -> bytes:
    """Join many parts in slices: while it works, `bytes.join` keeps 80 bytes for each part."""
    if len(parts) > JOINED_PARTS:
        parts = [b"".join(parts[start : start + JOINED_PARTS]) for start in range(0, len(parts), JOINED_PARTS)]
    return b"".join(parts)


def _unpack(packed: bytes, code: str) -> list[int]:
    return memoryview(packed).cast(code).tolist()  # type: ignore[call-overload, no-any-return]


def _apply_merges_to_bytes(data: bytes, merges: Sequence[Rule]) -> list[int]:
    """Equals `apply_merges` on the bytes of `data`: with one character an id, `str.replace` is `merge_pair`."""
    text = data.decode("latin-1")
    for (left, right), new_id in merges:
        text = text.replace(chr(left) + chr(right), chr(new_id))
    return list(map(ord, text))


def _need_bytes(data: Any) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data: got {type(data).__name__}; only bytes are supported")
    return bytes(data)


def training_sequences(documents: Iterable[str], merge_budget: int) -> list[list[int]]:
    """Return the UTF-8 bytes of each document, after checking the document variant's bounds."""
    if not 0 <= _need_integer("merge_budget", merge_budget) <= MERGE_LIMIT:
        raise LimitError(f"merge_budget: got {_show(merge_budget)}; only 0 to {MERGE_LIMIT} merges are supported")
    sequences, size = [], 0
    for number, text in enumerate(_need_texts("documents", documents)):
        data = _need_text(f"documents[{number}]", text).encode("utf-8")
        size += len(data)
        if size <= TRAIN_BYTES_LIMIT:
            sequences.append(list(data))
    if size > TRAIN_BYTES_LIMIT:
        raise LimitError(f"documents: got {size} bytes of UTF-8; at most {TRAIN_BYTES_LIMIT} are supported")
    return sequences


def _checked_rules(merges: Iterable[Rule]) -> list[Rule]:
    """Return the rules of the document variant as tuples, after checking ids, order and repetition."""
    rules: list[Rule] = []
    seen: set[Pair] = set()
    for number, rule in enumerate(merges):
        where, made = f"merges[{number}]", FIRST_MERGE_ID + number
        if number >= MERGE_LIMIT:
            raise LimitError(f"{where}: over the limit; at most {MERGE_LIMIT} merges are supported")
        pair, new_id = _integer_rule(where, rule)
        if new_id != made:
            raise TokenizerError(f"{where}: id out of order, got {_show(new_id)}; only {made} is supported here")
        for value in pair:
            if not 0 <= value < made or value in (BOS_ID, EOS_ID):
                raise TokenizerError(
                    f"{where}: rule of an unusable id, got {_show(value)}; "
                    "only bytes and ids made by earlier merges are supported"
                )
        if pair in seen:
            raise TokenizerError(f"{where}: pair twice, got {list(pair)}; each pair is supported once")
        seen.add(pair)
        rules.append((pair, made))
    return rules


def _integer_rule(where: str, rule: Any) -> Rule:
    try:
        (left, right), new_id = rule
    except (TypeError, ValueError):
        raise TypeError(f"{where}: got {_show(rule)}; only ((left, right), new_id) is supported") from None
    return (_need_integer(where, left), _need_integer(where, right)), _need_integer(where, new_id)


# ======================================================================================================================
# The gpt2 variant
# ======================================================================================================================


class AddedToken(NamedTuple):
    """A text that becomes one id before pre-tokens are cut; `normalized` ones are looked for last."""

    content: str
    id: int
    special: bool
    normalized: bool = False


class BPETokenizer(Tokenizer):
    """The gpt2 variant: pre-tokens by the GPT-2 expression, bytes as symbols, merges by rank.

    `vocab` maps token strings to ids and `merges` is a list of (left, right) token strings in rank order,
    both in the byte alphabet, as Hugging Face shows them. `added_tokens` are `(content, id, special)` or
    `(content, id, special, normalized)`; `pre_tokenizer` is the object a `tokenizer.json` declares, the plain
    GPT-2 split when None. Ids run from 0 without a gap. All of these are attributes too, with `added` from
    content to id, and are not to be changed.

    Raises ValueError for an added token that ordinary text could become (a byte symbol of the vocabulary, or
    the product of a merge) and for a vocabulary entry that is no added token and leaves the byte alphabet.

    >>> t = BPETokenizer({"a": 0, "b": 1, "ab": 2}, [("a", "b")], [("<end>", 3, True)])
    >>> t.encode("abba<end>")
    [2, 1, 0, 3]
    """

    variant = "gpt2"

    # ---- construction ----

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Iterable[tuple[str, str]],
        added_tokens: Iterable[Sequence[Any]] = (),
        pre_tokenizer: Mapping[str, Any] | None = None,
    ) -> None:
        self.vocab = _checked_vocab(vocab)
        self.added_tokens = _checked_added(added_tokens, self.vocab)
        self.added = {token.content: token.id for token in self.added_tokens}
        self.merges = _checked_merges(merges, self.vocab, self.added)
        _check_alphabet(self.vocab, self.added)
        self.pre_tokenizer = _checked_pre_tokenizer(pre_tokenizer)
        self.special_ids = frozenset(token.id for token in self.added_tokens if token.special)
        self.vocab_size = len(self.vocab.keys() | self.added.keys())

    @classmethod
    def train(  # type: ignore[override]  # the two variants stop at different limits
        cls,
        texts: Iterable[str],
        vocab_size: int,
        specials: Sequence[str] = (),
        min_freq: int = 2,
        *,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> BPETokenizer:
        """Learn merges from `texts`, any iterable of str, read once, until `vocab_size` ids exist.

        Ids: the specials, then the 256 byte symbols in code point order, then merges. The most frequent pair
        wins, on a tie the smallest (left id, right id); it stops early when the best count is below
        `min_freq`. Specials are cut out of the texts first, so no merge is learned from their characters.
        `workers` processes count, with the same result; `progress(stage, done, total or None)` is called at most
        ten times a second and once at the end of each stage, "count" (in texts) and "merge" (in merges).

        Raises ValueError for `vocab_size` below 256 plus the specials, `min_freq` below 1, and a special that
        is empty, repeated, a single byte symbol, or a spelling of other bytes in the byte alphabet (`Ġx`).

        Source: equals Hugging Face tokenizers 0.23.3, BpeTrainer with `initial_alphabet=ByteLevel.alphabet()`,
        on texts without specials; Hugging Face also learns from the characters of specials.
        """
        specials = _check_training(vocab_size, specials, min_freq)
        counts = count_pretokens(texts, specials, workers=workers, progress=progress)
        return cls._from_counts(counts, vocab_size, specials, min_freq, progress)

    @classmethod
    def train_from_counts(
        cls,
        counts: Mapping[str, int],
        vocab_size: int,
        specials: Sequence[str] = (),
        min_freq: int = 2,
        *,
        progress: Progress | None = None,
    ) -> BPETokenizer:
        """Learn merges from counted pre-tokens: the second half of `train`; see `count_pretokens`.

        Raises ValueError as `train` does, and for a key that is empty or contains a special, and a count that
        is no positive integer. The order of `counts` changes nothing.
        """
        specials = _check_training(vocab_size, specials, min_freq)
        if not isinstance(counts, Mapping):
            raise TypeError(f"counts: got {type(counts).__name__}; only a mapping from pre-token to count is supported")
        found = _literal_expression(specials).search if specials else lambda text: None
        for word, count in counts.items():
            if not _need_text("counts", word) or found(word):
                raise TokenizerError(
                    f"counts: got key {_show(word)}; only texts without specials, not empty, are supported"
                )
            if type(count) is not int or count < 1:
                raise TokenizerError(f"counts[{_show(word)}]: got {_show(count)}; only positive integers are supported")
        return cls._from_counts(counts, vocab_size, specials, min_freq, progress)

    @classmethod
    def _from_counts(
        cls,
        counts: Mapping[str, int],
        vocab_size: int,
        specials: Sequence[str],
        min_freq: int,
        progress: Progress | None,
    ) -> BPETokenizer:
        tokens = [*specials, *sorted(_byte_symbols())]
        vocab_size, min_freq = int(vocab_size), int(min_freq)
        merges = []
        for left, right in _merge_words(counts, len(tokens), vocab_size - len(tokens), min_freq, progress):
            merges.append((tokens[left], tokens[right]))
            tokens.append(tokens[left] + tokens[right])
        added = [(content, id, True) for id, content in enumerate(specials)]
        return cls({token: id for id, token in enumerate(tokens)}, merges, added)

    @classmethod
    def from_hf_json(cls, path: str | os.PathLike[str]) -> BPETokenizer:
        """Read a `tokenizer.json`, exactly the subset that gives the same ids here.

        Accepted: version "1.0"; no truncation, padding or normalizer; pre_tokenizer ByteLevel without prefix
        space, with its expression, alone or after Digits in a Sequence; post_processor absent, null or
        ByteLevel; decoder ByteLevel; model BPE without dropout, unknown token, prefix, suffix, byte fallback
        or ignored merges; added tokens without `single_word`, `lstrip` and `rstrip`. Any other value and any
        unknown key is a ValueError that gives the field's path, the value and what is supported.

        Source: Hugging Face tokenizers 0.23.3, which ignores or renumbers much of what is refused here.
        """
        name, data = _read_json(path)
        return cls._from_tokenizer_json(data, f"{name}: ")

    @classmethod
    def _from_tokenizer_json(cls, data: Any, where: str) -> BPETokenizer:
        """Build from a parsed `tokenizer.json`; `where` is the beginning of every message."""
        arguments = _tokenizer_json_arguments(data, where)
        try:
            return cls(*arguments)
        except TokenizerError as error:
            inside = "model." if str(error).startswith(("vocab", "merges")) else ""
            raise FormatError(f"{where}{inside}{error}") from None

    @classmethod
    def from_gpt2(cls, vocab_json: str | os.PathLike[str], merges_txt: str | os.PathLike[str]) -> BPETokenizer:
        """Read the older pair of files, `vocab.json` and `merges.txt`, in UTF-8 on every platform.

        Lines that begin with `#version` are skipped, wherever they stand; any other line that begins with `#`
        is a merge. `<|endoftext|>`, where the vocabulary has it, becomes a special added token. Raises
        ValueError with the line's number for a blank line, a byte order mark, and a line without exactly one
        space.

        Source: GPT-2's release; Hugging Face tokenizers 0.23.3, `BPE.read_file`.
        """
        name, vocab = _read_json(vocab_json)
        _need_vocab(f"{name}: ", vocab)
        merges_name, merges = os.fspath(merges_txt), _read_merges(merges_txt)
        end = [("<|endoftext|>", vocab["<|endoftext|>"], True)] if "<|endoftext|>" in vocab else []
        try:
            return cls(vocab, merges, end)
        except TokenizerError as error:
            raise FormatError(f"{merges_name if str(error).startswith('merges') else name}: {error}") from None

    # ---- encoding ----

    def encode(self, text: str, *, parse_special: bool = True) -> list[int]:  # type: ignore[override]
        """Return the ids of `text`.

        Added tokens are found first, leftmost-longest, those with `normalized` true only in what the others
        leave; then pre-tokens are cut, spelled in bytes, and merged by rank. A byte that the vocabulary has
        no symbol for is dropped before merging, so that its neighbours can merge. With `parse_special=False`
        no added token is found, special or not: use it for text from strangers.

        Raises TypeError for what is no str and ValueError for a lone surrogate, with its position.

        Source: Hugging Face tokenizers 0.23.3; tiktoken 0.14.0 gives the same ids for GPT-2.
        """
        return _unpack(self._packed(text, parse_special=parse_special), self._code)

    def _packed(self, text: str, *, parse_special: bool = True) -> bytes:  # type: ignore[override]
        if not isinstance(text, str):
            raise TypeError(f"text: got {type(text).__name__}; only str is supported")
        pack = self._encoder.pack
        try:
            if not parse_special or not self._holds_added(text):
                return pack(text)
            pieces = enumerate(self._split_added(text))
            return b"".join(self._packed_added[piece] if number % 2 else pack(piece) for number, piece in pieces)
        except UnicodeEncodeError:
            _need_text("text", text)  # says where the lone surrogate is
            raise

    def _holds_added(self, text: str) -> bool:
        """Tell whether any added token stands in `text`; for a few, looking for each is faster than an expression."""
        if len(self.added) <= 64:
            return any(map(text.__contains__, self.added))
        return any(expression.search(text) for expression in self._added_expressions)

    @cached_property
    def _encoder(self) -> _Encoder:
        return _Encoder(self.vocab, self.merges, self.vocab_size, self._digits)

    @property
    def _code(self) -> str:  # type: ignore[override]
        return self._encoder.merger.code

    @cached_property
    def _packed_added(self) -> dict[str, bytes]:
        return {content: array(self._code, [id]).tobytes() for content, id in self.added.items()}

    def encode_bytes(self, data: bytes, *, parse_special: bool = True) -> list[int]:
        """Return the ids of UTF-8 text given as bytes. Raises ValueError for invalid UTF-8, with the position."""
        text = _decode_utf8(_need_bytes(data), "data")
        return self.encode(text, parse_special=parse_special)

    def pretokenize(self, text: str) -> list[str]:
        """Return the pre-tokens of `text` by the declared steps: Digits first where there is one, then GPT-2's
        expression on each piece alone."""
        if self._digits is None:
            return pretokenize_gpt2(text)
        return [pretoken for piece in split_digits(text, self._digits) for pretoken in pretokenize_gpt2(piece)]

    @property
    def _digits(self) -> bool | None:
        """The Digits step: one piece for each number (True), for each run (False), or no such step (None)."""
        steps = self.pre_tokenizer.get("pretokenizers")
        return steps[0]["individual_digits"] if steps else None

    def _split_added(self, text: str) -> list[str]:
        """Cut `text` into ordinary text (even places, possibly empty) and added tokens (odd places)."""
        pieces = [text]
        for expression in self._added_expressions:  # splits an even place into an odd number of pieces
            pieces = [
                part
                for number, piece in enumerate(pieces)
                for part in ([piece] if number % 2 else expression.split(piece))
            ]
        return pieces

    @cached_property
    def _added_expressions(self) -> list[re.Pattern[str]]:
        """One expression for the added tokens with `normalized` false, then one for the others."""
        groups = [[t.content for t in self.added_tokens if t.normalized is kind] for kind in (False, True)]
        return [_literal_expression(contents) for contents in groups if contents]

    def _units(self, text: str, *, parse_special: bool = True) -> Iterator[tuple[str, int | None]]:
        for number, piece in enumerate(self._split_added(text) if parse_special else [text]):
            if number % 2:
                yield piece, self.added[piece]
            else:
                yield from ((pretoken, None) for pretoken in self.pretokenize(piece))

    def _encode_unit(self, unit: str) -> list[int]:
        return _unpack(self._encoder.words[unit], self._code)

    def _unit_steps(self, ids: list[int]) -> Iterator[tuple[int, int]]:
        return merge_steps(ids, self._ranks)

    @cached_property
    def _byte_ids(self) -> list[int | None]:
        """The id of each byte's symbol, or None where the vocabulary lacks it."""
        return [self.vocab.get(symbol) for symbol in _byte_symbols()]

    @cached_property
    def _ranks(self) -> dict[Pair, tuple[int, int]]:
        vocab = self.vocab
        return {
            (vocab[left], vocab[right]): (rank, vocab[left + right]) for rank, (left, right) in enumerate(self.merges)
        }

    # ---- decoding and vocabulary ----

    @cached_property
    def _bytes(self) -> dict[int, bytes]:  # type: ignore[override]
        """The bytes of each id, made when first asked for."""
        table = {id: _from_symbols(token) for token, id in self.vocab.items() if token not in self.added}
        table.update((token.id, token.content.encode("utf-8")) for token in self.added_tokens)
        return table

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {id: token for table in (self.vocab, self.added) for token, id in table.items()}

    def id_to_token(self, id: int) -> str:
        """Return the token string of `id`: in the byte alphabet, or an added token's own text.

        Raises ValueError for an id out of range.
        """
        if (value := _need_integer("id", id)) not in self._tokens:
            raise self._id_error("id", value)
        return self._tokens[value]

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token string, or None where the vocabulary has no such token."""
        if not isinstance(token, str):
            raise TypeError(f"token: got {type(token).__name__}; only str is supported")
        return self.added.get(token, self.vocab.get(token))

    # ---- serialization ----

    def to_payload(self) -> dict[str, Any]:
        """Return the tokenizer as a JSON object: its `tokenizer.json` and the SHA-256 of the canonical form."""
        return _with_hash(
            {
                "format": PAYLOAD_FORMAT,
                "format_version": PAYLOAD_VERSION,
                "variant": self.variant,
                "tokenizer_json": self._tokenizer_json(),
            }
        )

    @classmethod
    def _from_payload(cls, payload: Mapping[str, Any]) -> BPETokenizer:
        _need_keys("", payload, ("format", "format_version", "variant", "tokenizer_json", "sha256"))
        return cls._from_tokenizer_json(payload["tokenizer_json"], "tokenizer_json: ")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `tokenizer.json` that Hugging Face loads to the same ids, merges as "a b" strings.

        FileExistsError where something is there already.
        """
        write_new(path, self._tokenizer_json_text())

    def _tokenizer_json_text(self) -> str:
        return json.dumps(self._tokenizer_json(), ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BPETokenizer:
        """Read a `tokenizer.json`; the same as `from_hf_json`."""
        return cls.from_hf_json(path)

    def _tokenizer_json(self) -> dict[str, Any]:
        """Return the `tokenizer.json` object, every key of the subset present."""
        switches = {"single_word": False, "lstrip": False, "rstrip": False}
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": t.id,
                    "content": t.content,
                    **switches,
                    "normalized": t.normalized,
                    "special": t.special,
                }
                for t in self.added_tokens
            ],
            "normalizer": None,
            "pre_tokenizer": _checked_pre_tokenizer(self.pre_tokenizer),  # a copy
            "post_processor": None,
            "decoder": {
                "type": "ByteLevel",
                "add_prefix_space": True,
                "trim_offsets": True,
                "use_regex": True,
            },
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": dict(self.vocab),
                "merges": [f"{left} {right}" for left, right in self.merges],
            },
        }

    def _arguments(self) -> tuple[Any, ...]:
        return self.vocab, self.merges, self.added_tokens, self.pre_tokenizer


# ---- checks of the constructor and of training: one place for every way to make a BPETokenizer ----


def _checked_vocab(vocab: Mapping[str, int]) -> dict[str, int]:
    """Return `vocab` as a dict, after checking that its ids are 0 to n-1, each once."""
    if not isinstance(vocab, Mapping):
        raise TypeError(f"vocab: got {type(vocab).__name__}; only a mapping from str to int is supported")
    vocab = dict(vocab)
    if not {str}.issuperset(map(type, vocab)) or not {int}.issuperset(map(type, vocab.values())):
        vocab = {_need_text("vocab", token): _need_integer(f"vocab[{_show(token)}]", id) for token, id in vocab.items()}
    if sorted(vocab.values()) != list(range(len(vocab))):
        seen: set[int] = set()
        for token, id in vocab.items():
            if not 0 <= id < len(vocab) or id in seen:
                raise TokenizerError(
                    f"vocab[{_show(token)}]: got id {_show(id)}; only 0 to {len(vocab) - 1}, each once, are supported"
                )
            seen.add(id)
    return vocab


def _checked_added(added_tokens: Iterable[Sequence[Any]], vocab: Mapping[str, int]) -> list[AddedToken]:
    """Return the added tokens by id, after checking contents and ids against the vocabulary."""
    tokens, contents, next_id = [], set(), len(vocab)
    for number, fields in enumerate(added_tokens):
        where = f"added_tokens[{number}]"
        token = _added_token(where, fields)
        if token.content in contents:
            raise TokenizerError(f"{where}.content: got {_show(token.content)} again; each content is supported once")
        expected = vocab.get(token.content, next_id)
        if token.id != expected:
            known = "its id in the vocabulary" if token.content in vocab else "the next free id"
            raise TokenizerError(f"{where}.id: got {_show(token.id)}; only {expected}, {known}, is supported")
        next_id += token.content not in vocab
        contents.add(token.content)
        tokens.append(token)
    return sorted(tokens, key=lambda token: token.id)


def _added_token(where: str, fields: Sequence[Any]) -> AddedToken:
    if isinstance(fields, str) or not isinstance(fields, Sequence) or len(fields) not in (3, 4):
        raise TypeError(f"{where}: got {_show(fields)}; only (content, id, special[, normalized]) is supported")
    token = AddedToken(*fields)
    if not _need_text(f"{where}.content", token.content):
        raise TokenizerError(f'{where}.content: got ""; only texts that are not empty are supported')
    for name, value in (("special", token.special), ("normalized", token.normalized)):
        if type(value) is not bool:
            raise TypeError(f"{where}.{name}: got {_show(value)}; only true and false are supported")
    return token._replace(id=_need_integer(f"{where}.id", token.id))


def _checked_merges(
    merges: Iterable[tuple[str, str]], vocab: Mapping[str, int], added: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return the merges as tuples, after checking halves, products and repetition."""
    merges = list(merges)
    if not {tuple, list}.issuperset(map(type, merges)):
        number = next(number for number, pair in enumerate(merges) if type(pair) not in (tuple, list))
        raise TypeError(
            f"merges[{number}]: got {_show(merges[number])}; only (left, right), two token strings, is supported"
        )
    pairs: list[tuple[str, str]] = list(map(tuple, merges))  # type: ignore[arg-type]
    if not _all_usable(pairs, vocab, added):
        _name_unusable(pairs, vocab, added)
    return pairs


def _all_usable(pairs: list[tuple[str, str]], vocab: Mapping[str, int], added: Mapping[str, int]) -> bool:
    """Tell whether no merge is refused, in few calls into C: a third of the plain form's time on GPT-2."""
    try:
        products = [left + right for left, right in pairs]
    except (TypeError, ValueError):
        return False
    return (
        all(map(vocab.__contains__, chain.from_iterable(pairs)))
        and all(map(vocab.__contains__, products))
        and not any(map(added.__contains__, products))
        and len(set(pairs)) == len(pairs)
    )


def _name_unusable(pairs: list[tuple[str, str]], vocab: Mapping[str, int], added: Mapping[str, int]) -> None:
    """Refuse the first merge that is wrong, naming it; the plain form of `_all_usable`."""
    seen: set[tuple[str, str]] = set()
    for number, pair in enumerate(pairs):
        where = f"merges[{number}]"
        if len(pair) != 2 or not (isinstance(pair[0], str) and isinstance(pair[1], str)):
            raise TypeError(f"{where}: got {_show(pair)}; only (left, right), two token strings, is supported")
        product = pair[0] + pair[1]
        for token in (*pair, product):
            if token not in vocab:
                raise TokenizerError(f"{where}: got token {_show(token)}; only tokens of the vocabulary are supported")
        if pair in seen:
            raise TokenizerError(f"{where}: got {_show(' '.join(pair))} again; each merge is supported once")
        if product in added:
            raise TokenizerError(
                f"{where}: product is an added token, got {_show(product)}; ordinary text would become it"
            )
        seen.add(pair)


def _check_alphabet(vocab: Mapping[str, int], added: Mapping[str, int]) -> None:
    """Refuse an added token that is a byte symbol of `vocab`, and a token whose bytes are undefined."""
    alphabet = set(_byte_symbols())
    for content in added:
        if content in alphabet and content in vocab:
            raise TokenizerError(f"added_tokens: byte symbol, got {_show(content)}; ordinary text would become it")
    if re.search(f"[^{re.escape(_byte_symbols())}]", "".join(vocab)):
        for token in vocab:
            if token not in added and not alphabet.issuperset(token):
                raise TokenizerError(
                    f"vocab[{_show(token)}]: undefined bytes, got a character outside the byte alphabet; "
                    "only added tokens may have one"
                )


_PLAIN_SPLIT = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def _checked_pre_tokenizer(declared: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the declared pre-tokenizer, `use_regex` written out, or the plain GPT-2 split for None."""
    if declared is None:
        return dict(_PLAIN_SPLIT)
    where = "pre_tokenizer"
    if _need_type(where, declared, dict).get("type") != "Sequence":
        return _checked_split(where, declared)
    _need_keys(where, declared, ("type", "pretokenizers"))
    steps = _need_type(f"{where}.pretokenizers", declared["pretokenizers"], list)
    if len(steps) != 2:
        _refuse(f"{where}.pretokenizers", steps, "a Digits step and a ByteLevel step, in this order,")
    digits = _need_keys(f"{where}.pretokenizers[0]", steps[0], ("type", "individual_digits"))
    _need_value(f"{where}.pretokenizers[0].type", digits["type"], "Digits")
    _need_value(f"{where}.pretokenizers[0].individual_digits", digits["individual_digits"], False, True)
    split = _checked_split(f"{where}.pretokenizers[1]", steps[1])
    return {"type": "Sequence", "pretokenizers": [dict(digits), split]}


def _checked_split(where: str, declared: Any) -> dict[str, Any]:
    _need_byte_level(where, declared)
    _need_value(f"{where}.add_prefix_space", declared["add_prefix_space"], False)
    _need_value(f"{where}.use_regex", declared.get("use_regex", True), True)
    return {**declared, "use_regex": True}


def _need_byte_level(where: str, declared: Any) -> None:
    """Check a ByteLevel object, whose switches may be either bool; published files may lack `use_regex`."""
    _need_type(where, declared, dict)
    _need_value(f"{where}.type", declared.get("type"), "ByteLevel")
    _need_keys(where, declared, ("type", "add_prefix_space", "trim_offsets"), ("use_regex",))
    for switch in ("add_prefix_space", "trim_offsets", "use_regex"):
        _need_value(f"{where}.{switch}", declared.get(switch, True), False, True)


def _check_training(vocab_size: int, specials: Iterable[str], min_freq: int) -> list[str]:
    """Check the arguments of training before any text is read, and return the specials."""
    specials = _checked_specials(specials)
    least = 256 + len(specials)
    if _need_integer("vocab_size", vocab_size) < least:
        raise TokenizerError(
            f"vocab_size: got {_show(vocab_size)}; at least {least} (256 byte symbols and the specials) is supported"
        )
    if _need_integer("min_freq", min_freq) < 1:
        raise TokenizerError(f"min_freq: got {_show(min_freq)}; at least 1 is supported")
    return specials


def _checked_specials(specials: Iterable[str]) -> list[str]:
    """Return the specials of training, after refusing those that ordinary text or a merge could become."""
    bytes_of, checked = unicode_to_bytes(), []
    for number, special in enumerate(_need_texts("specials", specials)):
        where = f"specials[{number}]"
        if not _need_text(where, special) or special in checked:
            raise TokenizerError(
                f"{where}: got {_show(special)}; only texts that are not empty, each once, are supported"
            )
        if bytes_of.keys() >= set(special) and (len(special) == 1 or _from_symbols(special) != special.encode("utf-8")):
            raise TokenizerError(
                f"{where}: got {_show(special)}, which spells bytes in the byte alphabet; "
                "only texts that no merge can collide with are supported"
            )
        checked.append(special)
    return checked


# ======================================================================================================================
# Other formats: payloads, tokenizer.json, vocab.json and merges.txt, and files that are never overwritten
# ======================================================================================================================

PAYLOAD_FORMAT, PAYLOAD_VERSION = "bpe-tokenizer", 1


def _refuse(where: str, value: Any, supported: str) -> NoReturn:
    raise FormatError(f"{where}: got {_show(value)}; only {supported} is supported")


def _need_value(where: str, value: Any, *allowed: Any) -> None:
    """Refuse `value` unless it equals one of `allowed` in type, too: True is not 1."""
    if not any(type(value) is type(option) and value == option for option in allowed):
        _refuse(where, value, " or ".join(json.dumps(option, ensure_ascii=False) for option in allowed))


_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def _need_type(where: str, value: Any, kind: type) -> Any:
    if type(value) is not kind:
        _refuse(where, value, _JSON_NAMES[kind])
    return value


def _need_keys(where: str, value: Any, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return `value`, an object that has all `required` keys and no key but these and the `optional` ones."""
    _need_type(where or "top level", value, dict)
    path = where + "." if where and not where.endswith((" ", ".")) else where
    for key in required:
        if key not in value:
            raise FormatError(f"{path}{key}: missing; the key is required")
    for key in value:
        if key not in required and key not in optional:
            raise FormatError(
                f"{path}{_printable(key)}: unknown key, got {_show(value[key])}; "
                f"only {', '.join([*required, *optional])} are supported"
            )
    return value


def _canonical_hash(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`: sorted keys, no blanks, ASCII."""
    import hashlib

    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def _with_hash(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "sha256": _canonical_hash(payload)}


def _check_hash(payload: Mapping[str, Any]) -> None:
    computed = _canonical_hash({key: value for key, value in payload.items() if key != "sha256"})
    if payload["sha256"] != computed:
        _refuse("sha256", payload["sha256"], f"{computed}, the hash of this payload,")


def _payload_class(payload: Any) -> type[Tokenizer]:
    """Return the class that a payload's variant names, after checking its format and version."""
    _need_type("payload", payload, dict)
    classes = {kind.variant: kind for kind in (Tokenizer, BPETokenizer)}
    for key, allowed in (
        ("format", [PAYLOAD_FORMAT]),
        ("format_version", [PAYLOAD_VERSION]),
        ("variant", [*classes]),
    ):
        if key not in payload:
            raise FormatError(f"{key}: missing; the key is required")
        _need_value(key, payload[key], *allowed)
    return classes[payload["variant"]]


def _read_text(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return (name for messages, content) of a UTF-8 file, line ends as they are."""
    name = _path_name(path)
    with open(name, "rb") as file:
        return name, _decode_utf8(file.read(), name)


def _path_name(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"path: got {type(path).__name__}; only str and os.PathLike of str are supported")
    return name


def _decode_utf8(data: bytes, name: str, done: int = 0) -> str:
    """Decode UTF-8, naming the position of a wrong byte; `done` bytes came before `data`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _utf8_error(name, data, error, done) from None


def _utf8_error(name: str, data: bytes, error: UnicodeDecodeError, done: int) -> FormatError:
    return FormatError(
        f"{name}: invalid UTF-8, got byte 0x{data[error.start]:02x} at position {done + error.start}; "
        "only UTF-8 is supported"
    )


def _read_json(path: str | os.PathLike[str]) -> tuple[str, Any]:
    """Return (name for messages, value) of a JSON file; see `parse_json`."""
    name, text = _read_text(path)
    return name, parse_json(text, name)


def parse_json(text: str, name: str = "JSON") -> Any:
    """Parse strict JSON: a duplicate key, NaN, a byte order mark and nesting too deep are FormatErrors."""

    def _constant(value: str) -> NoReturn:
        raise FormatError(f"got {value}; only JSON numbers are supported")

    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_constant)
    except RecursionError:
        raise FormatError(f"{name}: nested too deep; only what Python's json can parse is supported") from None
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None
    except ValueError as error:  # JSONDecodeError, or an integer with more digits than Python takes
        raise FormatError(f"{name}: no valid JSON: {error}") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(key, count)] = Counter(key for key, _ in pairs).most_common(1)
        raise FormatError(f"key {_show(key)}: got it {count} times; each key is supported once")
    return found


def _need_vocab(where: str, vocab: Any) -> None:
    """Check the types of a vocabulary from a file; the constructor checks the rest."""
    _need_type(f"{where}vocab", vocab, dict)
    for token in vocab if not {str}.issuperset(map(type, vocab)) else ():  # no file has such a key, but a payload may
        _need_type(f"{where}vocab", token, str)
    if not {int}.issuperset(map(type, vocab.values())):
        for token, id in vocab.items():
            _need_type(f"{where}vocab[{_show(token)}]", id, int)


# The fields of a model with a fixed set of values, the first of which is what an absent field stands for.
_MODEL = {
    "type": ("BPE",),
    "dropout": (None,),
    "unk_token": (None,),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "fuse_unk": (False,),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
}
_ADDED_KEYS = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")


def _tokenizer_json_arguments(data: Any, where: str) -> tuple[Any, ...]:
    """Return the arguments of `BPETokenizer` from a parsed `tokenizer.json`, its header and types checked."""
    _need_type(where + "top level", data, dict)
    _need_keys(
        where,
        data,
        ("version", "pre_tokenizer", "decoder", "model"),
        ("truncation", "padding", "normalizer", "post_processor", "added_tokens"),
    )
    _need_value(f"{where}version", data["version"], "1.0")
    for key in ("truncation", "padding", "normalizer"):
        _need_value(f"{where}{key}", data.get(key), None)
    _need_type(f"{where}pre_tokenizer", data["pre_tokenizer"], dict)
    if data.get("post_processor") is not None:
        _need_byte_level(f"{where}post_processor", data["post_processor"])
    _need_byte_level(f"{where}decoder", data["decoder"])
    vocab, merges = _model_arguments(data["model"], f"{where}model")
    return vocab, merges, _added_arguments(data.get("added_tokens"), where), data["pre_tokenizer"]


def _model_arguments(model: Any, where: str) -> tuple[Any, list[tuple[str, str]]]:
    _need_keys(where, model, ("vocab", "merges"), tuple(_MODEL))
    for key, allowed in _MODEL.items():
        _need_value(f"{where}.{key}", model.get(key, allowed[0]), *allowed)
    _need_vocab(f"{where}.", model["vocab"])
    merges = _need_type(f"{where}.merges", model["merges"], list)
    pairs: list[Any] = []
    if {str}.issuperset(kinds := set(map(type, merges))):
        pairs = list(map(tuple, map(str.split, merges, repeat(" "))))
    elif kinds == {list}:
        pairs = list(map(tuple, merges))
    if (
        len(pairs) != len(merges)
        or not {2}.issuperset(map(len, pairs))
        or kinds == {list}
        and not {str}.issuperset(map(type, chain.from_iterable(pairs)))
    ):
        _name_mixed(merges, f"{where}.merges")
    return model["vocab"], pairs


def _name_mixed(merges: list[Any], where: str) -> NoReturn:
    """Refuse the first merge that is neither "a b" nor ["a", "b"], or not of the first one's form."""
    for number, row in enumerate(merges):
        pair = row.split(" ") if type(row) is str else row
        if type(row) is not type(merges[0]) or type(pair) is not list or list(map(type, pair)) != [str, str]:
            _refuse(f"{where}[{number}]", row, 'all "a b" strings or all ["a", "b"] pairs')
    raise FormatError(f"{where}: mixed forms")  # not reached: one of the rows is of another form


def _added_arguments(rows: Any, where: str) -> list[tuple[Any, ...]]:
    if rows is None:
        return []
    tokens = []
    for number, row in enumerate(_need_type(f"{where}added_tokens", rows, list)):
        place = f"{where}added_tokens[{number}]"
        _need_keys(place, row, _ADDED_KEYS)
        for key in ("single_word", "lstrip", "rstrip"):
            _need_value(f"{place}.{key}", row[key], False)
        for key in ("normalized", "special"):
            _need_value(f"{place}.{key}", row[key], False, True)
        _need_type(f"{place}.id", row["id"], int)
        _need_type(f"{place}.content", row["content"], str)
        tokens.append((row["content"], row["id"], row["special"], row["normalized"]))
    return tokens


def _read_merges(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Read a `merges.txt`: one merge a line, only a line feed ends a line, one CR before it is dropped."""
    name, text = _read_text(path)
    if text.startswith("\ufeff"):
        raise FormatError(f"{name}: line 1: got a byte order mark; only plain UTF-8 is supported")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()  # after the last line feed there is no line
    merges = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if line.startswith("#version"):
            continue
        if line.count(" ") != 1:
            raise FormatError(
                f'{name}: line {number}: got {_show(line)}; only two tokens and one space between, "a b", are supported'
            )
        merges.append(tuple(line.split(" ")))
    return merges


_TAKEN = "already there, and nothing is overwritten"


def write_new(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to a path where nothing is yet; all of it or nothing, see `new_file`."""
    with new_file(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a path where nothing is yet for bytes; the file is there when the block ends well, and not before.

    Raises FileExistsError where anything is there, a dangling link included. The bytes go to a hidden file in
    the same folder first. An error, or a signal that Python sees, leaves nothing behind; a killed process may
    leave the hidden file.
    """
    name = os.fspath(path)
    if os.path.lexists(name):  # before any work; the link below is what decides
        raise FileExistsError(errno.EEXIST, _TAKEN, name)
    hidden = os.path.join(os.path.dirname(name), f".tmp-{os.urandom(8).hex()}")
    try:
        try:
            with open(hidden, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _publish(hidden, name)
        except FileNotFoundError as error:
            if error.filename == hidden:  # the folder is not there: name the path that was asked for
                raise FileNotFoundError(error.errno, error.strerror, name) from None
            raise
        finally:
            _remove(hidden)
    finally:
        _remove(hidden)  # an interrupt may have come to the first


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _publish(hidden: str, name: str) -> None:
    """Give the finished file its name in one step that fails where the name is taken."""
    try:
        os.link(hidden, name)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, _TAKEN, name) from None
    except (OSError, AttributeError):  # no hard links here, or none in this Python
        _publish_without_links(hidden, name)


def _publish_without_links(hidden: str, name: str) -> None:
    """Take the name with an empty file, then put the finished one in its place."""
    claim = None
    try:
        claim = open(name, "xb")  # noqa: SIM115  # closed below; an interrupt finds the claim made or not
        claim.close()
        os.replace(hidden, name)
    except BaseException as error:
        if claim is not None:
            os.unlink(name)
        elif isinstance(error, FileExistsError):
            raise FileExistsError(errno.EEXIST, _TAKEN, name) from None
        raise


def format_json(value: Any, indent: str = "") -> str:
    """Return `value` as JSON for people and diffs: what holds only scalars stands on one line."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    if not any(isinstance(item, (dict, list, tuple)) for item in items):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    if isinstance(value, dict):
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {format_json(item, inner)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + format_json(item, inner) for item in value) + f"\n{indent}]"


# ======================================================================================================================
# Report: what was learned, and what it costs on text that was not
# ======================================================================================================================

REPORT_SCHEMA, REPORT_VERSION = "bpe-report", 1
CORPUS_SCHEMA, CORPUS_VERSION = "bpe-corpus", 1
SPLITS = ("train", "validation", "test")
VARIANTS = ("document", "gpt2")

# Texts that no split of the corpus holds: other scripts, code, emoji, one accent in its two spellings, and the
# spelling of a control token.
UNSEEN = (
    "Καλημέρα κόσμε",
    "ночной поезд",
    "日本語の文章",
    "नमस्ते दुनिया",
    "مرحبا بالعالم",
    "def twice(x):\n    return x + x\n",
    "👩‍🚀🎉",
    "caf\u00e9",
    "cafe\u0301",
    "<eos>",
)

_NOTES = [
    "Token perplexities of different output alphabets cannot be ranked: their tokens are different units.",
    "Nats per UTF-8 byte share a denominator, but they score one canonical path of tokens; other paths spell the "
    "same bytes, so this is no normalized string likelihood.",
    "The loss at each EOS is in the numerator of nats per UTF-8 byte, and no byte for it in the denominator.",
]


class Document(NamedTuple):
    """One text of a corpus, with its id and its split."""

    id: str
    split: str
    text: str


class Corpus(NamedTuple):
    """The documents of a corpus file, in its order, and the SHA-256 of the file's bytes."""

    sha256: str
    documents: list[Document]

    def texts(self, split: str) -> list[str]:
        """Return the texts of one split."""
        return [document.text for document in self.documents if document.split == split]


def read_corpus(path: str | os.PathLike[str]) -> Corpus:
    """Read a corpus file; see `parse_corpus`."""
    name = _path_name(path)
    with open(name, "rb") as file:
        return parse_corpus(file.read(), name)


def parse_corpus(data: bytes, name: str = "corpus") -> Corpus:
    """Parse `{"schema": "bpe-corpus", "schema_version": 1, "language": str, "documents": [...]}`.

    Each document has an id, used once, a split (train, validation or test) and a text. At least one is a
    training document. Anything else is a FormatError that names the place; `name` begins the message.
    """
    import hashlib

    parsed, where = parse_json(_decode_utf8(data, name), name), f"{name}: "
    _need_keys(where, parsed, ("schema", "schema_version", "language", "documents"))
    _need_value(f"{where}schema", parsed["schema"], CORPUS_SCHEMA)
    _need_value(f"{where}schema_version", parsed["schema_version"], CORPUS_VERSION)
    _need_type(f"{where}language", parsed["language"], str)
    documents: list[Document] = []
    seen: set[str] = set()
    for number, row in enumerate(_need_type(f"{where}documents", parsed["documents"], list)):
        documents.append(_corpus_document(f"{where}documents[{number}]", row))
        if documents[-1].id in seen:
            raise FormatError(f"{where}documents[{number}].id: got {_show(row['id'])} again; each id is supported once")
        seen.add(documents[-1].id)
    if not any(document.split == "train" for document in documents):
        raise FormatError(
            f"{where}documents: no training document, got {len(documents)} documents; "
            "at least one with split train is required"
        )
    return Corpus(hashlib.sha256(data).hexdigest(), documents)


def _corpus_document(where: str, row: Any) -> Document:
    _need_keys(where, row, ("id", "split", "text"))
    for key in ("id", "split", "text"):
        _need_text(f"{where}.{key}", _need_type(f"{where}.{key}", row[key], str))
    _need_value(f"{where}.split", row["split"], *SPLITS)
    if not row["id"]:
        _refuse(f"{where}.id", "", "a text that is not empty")
    return Document(row["id"], row["split"], row["text"])


class _Run:
    """One training run of either variant on the functions of `core`, and its encoding."""

    def __init__(self, texts: list[str], variant: str, merge_budget: int, core: Core) -> None:
        self.variant, self.core = variant, core
        if variant == "document":
            training_sequences(texts, merge_budget)  # checks the bounds
        elif _need_integer("merge_budget", merge_budget) < 0:
            raise TokenizerError(f"merge_budget: got {_show(merge_budget)}; at least 0 is supported")
        first_id = FIRST_MERGE_ID if variant == "document" else 256
        sequences = [unit for text in texts for unit in self.units(text)]
        self.merges = train_merges(sequences, merge_budget, first_id=first_id, core=core)
        self.rules = [(merge.pair, merge.id) for merge in self.merges]

    def units(self, text: str) -> list[list[int]]:
        """Return the sequences of ids that merges never cross: the document, or each pre-token."""
        if self.variant == "document":
            return [list(text.encode("utf-8"))]
        ids = _symbol_ids()
        return [[ids[byte] for byte in pretoken.encode("utf-8")] for pretoken in pretokenize_gpt2(text)]

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`; for merges that were trained, applying them in turn is merging by rank."""
        return [id for unit in self.units(text) for id in self.core.apply_merges(unit, self.rules)]

    def tokenizer(self) -> Tokenizer:
        """Return the trained tokenizer."""
        if self.variant == "document":
            return Tokenizer(self.rules)
        tokens = sorted(_byte_symbols())
        pairs = []
        for left, right in (pair for pair, _ in self.rules):
            pairs.append((tokens[left], tokens[right]))
            tokens.append(tokens[left] + tokens[right])
        return BPETokenizer({token: id for id, token in enumerate(tokens)}, pairs)


def build_report(
    corpus: Corpus,
    *,
    variant: str = "document",
    merge_budget: int = MERGE_BUDGET,
    unseen: Sequence[tuple[str, int | None]] = (),
    explanation: str | None = None,
    core: Core = CORE,
    implementation: str = "reference",
) -> dict[str, Any]:
    """Train on the corpus's training documents and report on all of it; see the README for each key.

    `unseen` are further texts, each with the byte count expected before looking, or None. Only training
    documents are fitted: held-out text changes nothing in `tokenizer`, `merges` or `training_ids`. Sums are
    `math.fsum`, and each figure comes from unrounded ones and is then rounded to six places.
    """
    _need_value("variant", variant, *VARIANTS)
    merge_budget = _need_integer("merge_budget", merge_budget)
    run = _Run(corpus.texts("train"), variant, merge_budget, core)
    tokenizer = run.tokenizer()
    ids = {document.id: run.encode(document.text) for document in corpus.documents}
    rows = [(text, None) for text in UNSEEN] + [(_need_text("unseen", text), count) for text, count in unseen]
    unseen_rows = [_unseen_row(tokenizer, run.encode(text), text, count) for text, count in rows]
    return {
        "schema": REPORT_SCHEMA,
        "schema_version": REPORT_VERSION,
        "implementation": implementation,
        "policy": _policy(variant, merge_budget),
        "corpus": _corpus_summary(corpus),
        "tokenizer": tokenizer.to_payload(),
        "merges": [_merge_row(tokenizer, rank, merge) for rank, merge in enumerate(run.merges)],
        "training_ids": {document.id: ids[document.id] for document in corpus.documents if document.split == "train"},
        "round_trips": [_round_trip(tokenizer, d.split, d.id, d.text, ids[d.id]) for d in corpus.documents]
        + [
            _round_trip(tokenizer, "unseen", f"unseen-{n:02}", row["text"], row["ids"])
            for n, row in enumerate(unseen_rows, 1)
        ],
        "held_out": {split: _held_out(corpus.texts(split), run.encode) for split in SPLITS[1:]},
        "baselines": _baselines(corpus, run, tokenizer),
        "unseen": unseen_rows,
        "explanation": None if explanation is None else _need_text("explanation", explanation),
    }


def _policy(variant: str, merge_budget: int) -> dict[str, Any]:
    document = variant == "document"
    return {
        "variant": variant,
        "merge_budget": merge_budget,
        "stop_rule": "at the merge budget, or when no pair occurs twice",
        "tie_rule": "most frequent pair; on a tie the smallest (left id, right id)",
        "normalization": "none",
        "pre_tokenization": "none; merges may cross spaces and line ends inside a document"
        if document
        else "the GPT-2 expression over Unicode 16.0; merges never cross a pre-token",
        "bos_id": BOS_ID if document else None,
        "eos_id": EOS_ID if document else None,
        "alpha": ALPHA,
    }


def _corpus_summary(corpus: Corpus) -> dict[str, Any]:
    return {
        "sha256": corpus.sha256,
        "document_ids": {split: [d.id for d in corpus.documents if d.split == split] for split in SPLITS},
        "bytes": {split: sum(_utf8_length(text) for text in corpus.texts(split)) for split in SPLITS},
        "code_points": {split: sum(map(len, corpus.texts(split))) for split in SPLITS},
    }


def _utf8_length(text: str) -> int:
    return len(text.encode("utf-8"))


def _text_or_none(data: bytes) -> str | None:
    """Return `data` as text, or None where it is no UTF-8, such as part of a character."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _merge_row(tokenizer: Tokenizer, rank: int, merge: Merge) -> dict[str, Any]:
    data = tokenizer.token_bytes(merge.id)
    return {
        "rank": rank,
        "pair": list(merge.pair),
        "id": merge.id,
        "count_when_chosen": merge.count,
        "bytes": data.hex(),
        "text": _text_or_none(data),
    }


def _round_trip(tokenizer: Tokenizer, split: str, name: str, text: str, ids: list[int]) -> dict[str, Any]:
    return {
        "split": split,
        "id": name,
        "bytes_in": _utf8_length(text),
        "bytes_out_equal": tokenizer.decode_bytes(ids) == text.encode("utf-8"),
        "token_count": len(ids),
    }


def _unseen_row(tokenizer: Tokenizer, ids: list[int], text: str, predicted: int | None) -> dict[str, Any]:
    return {
        "text": text,
        "bytes": _utf8_length(text),
        "bytes_predicted": predicted,
        "tokens": len(ids),
        "ids": ids,
        "token_texts": [_text_or_none(tokenizer.token_bytes(id)) for id in ids],
        "round_trip": tokenizer.decode_bytes(ids) == text.encode("utf-8"),
    }


def _figure(value: float) -> float:
    """Round a figure of the report; the only place where one is rounded."""
    return round(value, 6)


def _ratio(numerator: float, denominator: int) -> float | None:
    return _figure(numerator / denominator) if denominator else None


def _held_out(texts: list[str], encode: Callable[[str], list[int]]) -> dict[str, Any]:
    """Measure what the frozen merges cost on one held-out split; framing is excluded."""
    size, points = sum(map(_utf8_length, texts)), sum(map(len, texts))
    tokens = sum(len(encode(text)) for text in texts)
    return {
        "documents": len(texts),
        "utf8_bytes": size,
        "code_points": points,
        "content_tokens": tokens,
        "bytes_per_token": _ratio(size, tokens),
        "tokens_per_code_point": _ratio(tokens, points),
    }


def _baselines(corpus: Corpus, run: _Run, tokenizer: Tokenizer) -> dict[str, Any]:
    """Fit bigram counts on training documents and score the held-out splits, in bytes and in tokens."""
    content = tokenizer.vocab_size - len(tokenizer.special_ids)
    return {
        "raw_bytes": _baseline(corpus, "byte", lambda text: list(text.encode("utf-8")), 256 + 1),
        "bpe": _baseline(corpus, "token", run.encode, content + 1),
        "notes": _NOTES,
    }


def _baseline(corpus: Corpus, unit: str, encode: Callable[[str], list[int]], alphabet: int) -> dict[str, Any]:
    """Score one unit by add-alpha bigrams; `alphabet` is the number of outputs, EOS included."""
    pairs = Counter(step for text in corpus.texts("train") for step in _steps(encode(text)))
    contexts: Counter[Any] = Counter()
    for (context, _), count in pairs.items():
        contexts[context] += count
    row: dict[str, Any] = {"unit": unit, "output_alphabet_size": alphabet}
    for split in SPLITS[1:]:
        texts = corpus.texts(split)
        steps = [step for text in texts for step in _steps(encode(text))]
        losses = [-math.log((pairs[step] + ALPHA) / (contexts[step[0]] + ALPHA * alphabet)) for step in steps]
        row[split] = _loss_figures(math.fsum(losses), len(steps), sum(map(_utf8_length, texts)))
    return row


def _steps(ids: list[int]) -> Iterator[tuple[Any, Any]]:
    """Yield (previous, scored) for each id and one EOS; BOS is context only. Neither is an id."""
    return zip(["bos", *ids], [*ids, "eos"])


def _loss_figures(nats: float, tokens: int, size: int) -> dict[str, Any]:
    return {
        "tokens_scored": tokens,
        "nats": _figure(nats),
        "nats_per_token": _ratio(nats, tokens),
        "token_perplexity": _figure(math.exp(nats / tokens)) if tokens else None,
        "nats_per_utf8_byte": _ratio(nats, size),
    }


REPORT_KEYS = (
    "schema", "schema_version", "implementation", "policy", "corpus", "tokenizer", "merges", "training_ids",
    "round_trips", "held_out", "baselines", "unseen", "explanation",
)  # fmt: skip
_UNVERIFIABLE = (
    "implementation",
    "explanation",
)  # checked for type alone, and so are the predictions of `unseen`


def verify_report(report: Any, corpus: Corpus) -> list[str]:
    """Recompute every key of a report from its corpus; return what differs, one line each.

    Hashes inside the report count for nothing: everything is trained and measured anew. `implementation`,
    `explanation` and predicted byte counts are checked for type only. Raises FormatError for what is no report.
    """
    _need_keys("", report, REPORT_KEYS)
    _need_value("schema", report["schema"], REPORT_SCHEMA)
    _need_value("schema_version", report["schema_version"], REPORT_VERSION)
    _need_value("implementation", report["implementation"], "reference", "starter")
    if report["explanation"] is not None:
        _need_type("explanation", report["explanation"], str)
    found = [
        list(_differences("", report, {**expected, **{key: report[key] for key in _UNVERIFIABLE}}))
        for expected in _recomputed(report, corpus)
    ]
    return min(found, key=len)


def _own_unseen(rows: Any) -> list[tuple[str, int | None]]:
    """Return the learner's own texts of a report, with the predicted byte counts."""
    own = []
    for number, row in enumerate(_need_type("unseen", rows, list)[len(UNSEEN) :], len(UNSEEN)):
        where = f"unseen[{number}]"
        _need_keys(where, row, ("text", "bytes", "bytes_predicted", "tokens", "ids", "token_texts", "round_trip"))
        _need_text(f"{where}.text", _need_type(f"{where}.text", row["text"], str))
        if row["bytes_predicted"] is not None:
            _need_type(f"{where}.bytes_predicted", row["bytes_predicted"], int)
        own.append((row["text"], row["bytes_predicted"]))
    return own


def _recomputed(report: dict[str, Any], corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield the reports that could have been meant, so that the least difference names what was changed.

    If the policy was changed, the merges still say what it was; if one of the learner's own texts was, its ids
    still do.
    """
    policy = _need_keys("policy", report["policy"], tuple(_policy("document", 0)))
    _need_value("policy.variant", policy["variant"], *VARIANTS)
    _need_type("policy.merge_budget", policy["merge_budget"], int)
    merges = _need_type("merges", report["merges"], list)
    own = _own_unseen(report["unseen"])
    for variant in VARIANTS:
        for budget in dict.fromkeys((policy["merge_budget"], len(merges))):
            try:
                expected = build_report(corpus, variant=variant, merge_budget=budget, unseen=own)
                yield expected
            except TokenizerError:
                if (variant, budget) == (policy["variant"], policy["merge_budget"]):
                    raise
                continue
            meant = _texts_of_ids(report["unseen"], own, expected["tokenizer"])
            if meant != own:
                yield build_report(corpus, variant=variant, merge_budget=budget, unseen=meant)


def _texts_of_ids(
    rows: list[Any], own: list[tuple[str, int | None]], payload: dict[str, Any]
) -> list[tuple[str, int | None]]:
    """Return the learner's own texts as their ids spell them, where they do."""
    tokenizer, texts = Tokenizer.from_payload(payload), []
    for row, (text, predicted) in zip(rows[len(UNSEEN) :], own):
        try:
            if sum(len(tokenizer.token_bytes(id)) for id in row["ids"]) <= TRAIN_BYTES_LIMIT:  # ids may be hostile
                text = tokenizer.decode(row["ids"], errors="strict")
        except (TypeError, ValueError):
            pass
        texts.append((text, predicted))
    return texts


def _differences(path: str, got: Any, expected: Any) -> Iterator[str]:
    """Yield a line for each place where two JSON values differ, in type too."""
    if type(got) is not type(expected):
        yield f"{path}: got {_show(got)}, recomputed {_show(expected)}"
    elif isinstance(got, dict):
        for key in dict.fromkeys([*expected, *got]):
            place = f"{path}.{_printable(key)}" if path else _printable(key)
            if key not in got or key not in expected:
                yield f"{place}: {'missing' if key in expected else 'unknown key'}"
            else:
                yield from _differences(place, got[key], expected[key])
    elif isinstance(got, list):
        if len(got) != len(expected):
            yield f"{path}: got {_show(got)}, recomputed {_show(expected)}"
        for number, (a, b) in enumerate(zip(got, expected)):
            yield from _differences(f"{path}[{number}]", a, b)
    elif got != expected:
        yield f"{path}: got {_show(got)}, recomputed {_show(expected)}"


# ======================================================================================================================
# Starter: the checks that a repair has to pass before it gives a report
# ======================================================================================================================

CHECK_SECONDS = 5  # for all checks together; they take milliseconds


class Check(NamedTuple):
    """One call of a repaired function, what it has to return, and what a wrong answer most likely means."""

    function: str
    arguments: tuple[Any, ...]
    expected: Any
    hint: str


_AB, _BC = ((97, 98), 258), ((98, 99), 258)

CHECKS = (
    Check("pair_counts", ([],), {}, "no documents, no pairs: an empty dict"),
    Check("pair_counts", ([[97]],), {}, "one id alone has no neighbour"),
    Check("pair_counts", ([[97, 98]],), {(97, 98): 1},
          "the keys are (left, right) tuples and the values integers; the last pair counts, and so does a pair that "
          "occurs once: when to stop is for the training loop to decide"),
    Check("pair_counts", ([[97, 98, 99]],), {(97, 98): 1, (98, 99): 1},
          "every pair is counted, overlapping ones and all of a tie: which pair wins is for the training loop to "
          "decide"),
    Check("pair_counts", ([[97, 98, 97, 98]],), {(97, 98): 2, (98, 97): 1},
          "every pair is counted, not only the most frequent"),
    Check("pair_counts", ([[97, 97, 97]],), {(97, 97): 2},
          "overlaps count: in a a a the pair (a, a) stands at place 0 and at place 1; only replacing is without "
          "overlap"),
    Check("pair_counts", ([[97, 98], [99, 100]],), {(97, 98): 1, (99, 100): 1},
          "documents are isolated: no pair spans the end of one document and the start of the next"),
    Check("pair_counts", ([[97, 98], [97, 98]],), {(97, 98): 2}, "the counts of all documents add up"),
    Check("merge_pair", ([], (97, 98), 258), [], "nothing in, nothing out: an empty list"),
    Check("merge_pair", ([97, 98], (97, 98), 258), [258],
          "the pair becomes new_id itself, in a new list"),
    Check("merge_pair", ([99, 97], (97, 98), 258), [99, 97], "what is not the pair is kept, the last id included"),
    Check("merge_pair", ([98, 97], (97, 98), 258), [98, 97], "(left, right) is ordered: b a is not a b"),
    Check("merge_pair", ([97, 98, 99, 97, 98], (97, 98), 258), [258, 99, 258],
          "every occurrence is replaced, not only the first"),
    Check("merge_pair", ([97, 97, 97], (97, 97), 258), [258, 97],
          "left to right without overlap: the first two are used up, no id is shared by two replacements, and the "
          "last one is left over"),
    Check("merge_pair", ([97, 97, 97, 97], (97, 97), 258), [258, 258],
          "after a replacement go on behind it: four ids hold two replacements, and a new id is not looked at again"),
    Check("apply_merges", ([97, 98], []), [97, 98], "no rules, no change: a list equal to the input"),
    Check("apply_merges", ([97, 98, 99], [_AB]), [258, 99],
          "a rule is ((left, right), new_id): its pair becomes its new_id"),
    Check("apply_merges", ([97, 98, 97, 98], [_AB]), [258, 258],
          "a rule is applied at every place, not once at the first"),
    Check("apply_merges", ([97, 98, 99], [_AB, ((258, 99), 259)]), [259],
          "a later rule may use what an earlier one made: each works on the result so far"),
    Check("apply_merges", ([97, 98, 99, 98, 99], [_BC, ((97, 98), 259)]), [97, 258, 258],
          "rank order: the first rule of the list goes first, over the whole sequence, although another pair stands "
          "further left"),
    Check("apply_merges", ([97, 98, 99, 97, 98], [_BC, ((97, 98), 259)]), [97, 258, 259],
          "nothing is counted anew: the rules' order is frozen, however often their pairs occur in this input"),
)  # fmt: skip


def _small_calls() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield calls of the three functions from small to large, every one over few ids."""
    from itertools import product

    short = [list(ids) for size in range(6) for ids in product((97, 98), repeat=size)]
    yield from (("pair_counts", ([ids],)) for ids in short)
    yield from (("pair_counts", ([a, b],)) for a in short[:15] for b in short[:15])
    mixed = [list(ids) for size in range(5) for ids in product((97, 98, 258), repeat=size)]
    pairs = [(97, 97), (97, 98), (98, 97), (258, 97), (98, 258)]
    yield from (("merge_pair", (ids, pair, 259)) for ids in mixed for pair in pairs)
    rules = [_AB, ((98, 97), 259), ((97, 97), 260), ((258, 97), 261), ((258, 258), 262)]
    orders = [rules, [rules[1], rules[0], rules[2]], [rules[2], ((260, 260), 263), rules[0]]]
    yield from (("apply_merges", (ids, order)) for ids in short for order in orders)


def _all_checks() -> Iterator[Check]:
    """Yield `CHECKS`, then after each function's own every small call with the reference's answer."""
    for name in Core._fields:
        yield from (check for check in CHECKS if check.function == name)
        for function, arguments in _small_calls():
            if function == name:
                yield Check(
                    name,
                    arguments,
                    getattr(CORE, name)(*arguments),
                    "compare with the docstring, step by step, on this input",
                )


def _wrong_answer(check: Check, function: Callable[..., Any]) -> str | None:
    """Call `function` as `check` says; return the message of a wrong answer, or None for a right one."""
    import copy

    arguments = copy.deepcopy(check.arguments)
    try:
        got = function(*arguments)
    except BaseException as error:  # SystemExit too: nothing that a repair does may look like success
        return _check_message(check, f"{type(error).__name__}: {error}", "it raised an exception instead of returning")
    kind = type(check.expected)
    if got is None:
        return _check_message(
            check, "None", "it returned None: a return statement is missing or stands in the wrong place"
        )
    if not isinstance(got, kind):
        return _check_message(check, f"{got!r} ({type(got).__name__})", f"it has to return a {kind.__name__}")
    if kind(got) != check.expected or repr(_sorted(kind(got))) != repr(_sorted(check.expected)):
        return _check_message(check, repr(got), check.hint, _first_difference(got, check.expected))
    if arguments != check.arguments:
        return _check_message(
            check, repr(arguments), "it changed its argument: build a new list and leave the old one alone"
        )
    return None


def _sorted(value: Any) -> Any:
    return sorted(value.items()) if isinstance(value, dict) else value


def _first_difference(got: Any, expected: Any) -> str:
    """Name the first place where an answer differs from the expected one."""
    if isinstance(expected, dict):
        for key in [*expected, *got]:
            if key not in got or key not in expected:
                return f"{key!r} is {'missing' if key in expected else 'not expected'}"
            if got[key] != expected[key]:
                return f"{key!r} is {got[key]!r} instead of {expected[key]!r}"
        return "a key or value of another type"
    for place, (a, b) in enumerate(zip(got, expected)):
        if a != b or type(a) is not type(b):
            return f"place {place} holds {a!r} instead of {b!r}"
    return f"the length is {len(got)} instead of {len(expected)}"


def _check_message(check: Check, got: str, hint: str, difference: str = "") -> str:
    call = f"{check.function}({', '.join(map(repr, check.arguments))})"
    lines = [
        f"{check.function} gives a wrong output",
        f"  call        {call}",
        f"  got         {got if len(got) <= 200 else got[:197] + '...'}",
        f"  expected    {check.expected!r}",
    ]
    if difference:
        lines.append(f"  difference  {difference}")
    return "\n".join([*lines, f"  hint        {hint}"])


_DOES_NOT_RUN = """\
  expected    a file that Python can read
  hint        the error names the line; an indent, a colon or a bracket is a good first guess"""


def run_checks(path: str, say: Callable[[str], None]) -> None:
    """Load the starter at `path` and check it, in this process; `say` gets each step and its outcome.

    Meant for a child process, as a repair may never return: `check_starter` starts one.
    """
    import importlib.util

    try:
        spec = importlib.util.spec_from_file_location("repaired_starter", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException as error:
        say(f"wrong starter.py does not run\n  got         {type(error).__name__}: {error}\n{_DOES_NOT_RUN}")
        return
    for check in _all_checks():
        function = getattr(module, check.function, None)
        say(
            "start "
            + _check_message(check, "no answer in time", "it does not end: a loop whose index does not grow, say")
        )
        wrong = (
            _wrong_answer(check, function)
            if callable(function)
            else _check_message(check, "no such function", f"starter.py has to define {check.function}")
        )
        if wrong:
            say("wrong " + wrong)
            return
    say("right")


def check_starter(path: str, seconds: float = CHECK_SECONDS) -> str | None:
    """Check the three functions of the starter at `path`; return the first wrong output, or None.

    They run in a child process with a time limit, so a loop without end is a wrong output like any other.
    What they print is not shown.
    """
    said: list[str] = []
    if sys.platform == "emscripten":  # no processes here, and so no time limit
        run_checks(path, said.append)
    else:
        said += map(json.loads, _checks_in_a_process(path, seconds))
    last = said[-1] if said else _NOT_LOADED
    return None if last == "right" else last.partition(" ")[2]


_NOT_LOADED = """\
start starter.py was not loaded in time
  hint        code outside the functions does not end"""


def _checks_in_a_process(path: str, seconds: float) -> list[str]:
    """Return the lines, each a JSON string, that `run_checks` says in a child process until it ends or is ended."""
    import subprocess

    command = [sys.executable, "-B", os.path.abspath(__file__), "--check-starter", os.path.abspath(path)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        output = child.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        output = child.communicate()[0]
    return [line for line in output.decode("utf-8", "replace").splitlines() if line.endswith('"')]


# ======================================================================================================================
# View: reports as one page to look at
# ======================================================================================================================

CURVE_MERGES, CURVE_LIMIT = 128, 1024  # the curves go on to the first at least, and to the second at most
SHOWN_TOKENS, SHOWN_MERGES = 20_000, 512  # of one text, and of one report, on the page
DRAWN_BYTES = 48  # of a token whose derivation is drawn

_MARKS = {" ": "·", "\n": "↵", "\t": "→", "\r": "␍"}
# Characters that a token shows by name: controls, white space and format characters, which are invisible.
_HIDDEN = re.compile(f"[\0-\x1f\x7f-\xa0\xad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff{_SPACES}]")
# Characters that no text on the page may hold: controls, and those that turn the direction of what follows.
_UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_REMARKS = {"token_perplexity": "not to be ranked: see the notes", "nats_per_utf8_byte": "see the notes"}


class _Shown(NamedTuple):
    """A checked report and what the page needs of it: its tokenizer, the merges as ids, and what differs."""

    report: dict[str, Any]
    tokenizer: Tokenizer
    rules: list[Rule]
    differences: list[str]

    def label(self) -> str:
        """Return the name of the report on the page."""
        return f"{self.tokenizer.variant}, {len(self.rules)} merges"

    def derivations(self) -> dict[int, tuple[int, Pair]]:
        """Return for each id that merges make the rank and the pair of the first of them."""
        made: dict[int, tuple[int, Pair]] = {}
        for rank, (pair, new_id) in enumerate(self.rules):
            if all(map(self.tokenizer.token_bytes, pair)):  # an empty half would lead back
                made.setdefault(new_id, (rank, pair))
        return made


def report_page(reports: Sequence[Any], corpus: Corpus) -> str:
    """Return one HTML page that shows `reports` on `corpus`; it loads nothing and runs nothing.

    Each report is recomputed first, and the page says what differs. Merges and tokens are drawn from the
    report's tokenizer, figures are the report's own, the curves are trained anew. Raises FormatError for what
    is no report, or one on another corpus.
    """
    return _page([_checked_report(report, corpus) for report in reports], corpus)


def _page(shown: Sequence[_Shown], corpus: Corpus) -> str:
    """Put the sections of `_SECTIONS` together, the parts of each side by side."""
    body = []
    for title, lead, parts in _SECTIONS:
        body.append(f'<section>\n<h2>{title}</h2>\n<p>{lead}</p>\n<div class="parts">\n')
        body += [f'<div class="part">\n{part}</div>\n' for part in parts(shown, corpus)]
        body.append("</div>\n</section>\n")
    return _PAGE.replace("{style}", _STYLE).replace("{body}", "".join(body))


def _checked_report(report: Any, corpus: Corpus) -> _Shown:
    """Refuse what is no report on `corpus`, and recompute what is."""
    _need_keys("", report, REPORT_KEYS)
    sha256 = _need_type("corpus", report["corpus"], dict).get("sha256")
    if sha256 != corpus.sha256:
        _refuse("corpus.sha256", sha256, f"{corpus.sha256}, the hash of the corpus given,")
    differences = verify_report(report, corpus)
    try:
        tokenizer = Tokenizer.from_payload(report["tokenizer"])
    except TokenizerError as error:
        raise FormatError(f"tokenizer: {error}") from None
    documents = [Document(split, split, "abab") for split in SPLITS]
    example = build_report(Corpus("", documents), variant=tokenizer.variant, merge_budget=1)
    for key in ("policy", "merges", "held_out", "baselines", "unseen"):
        _need_like(key, report[key], example[key])
    for number, row in enumerate(report["unseen"]):
        _need_text(f"unseen[{number}].text", _need_type(f"unseen[{number}].text", row["text"], str))
    rules = _id_rules(tokenizer)
    if len(report["merges"]) != len(rules):
        _refuse("merges", report["merges"], f"a list of {len(rules)}, the merges of its tokenizer,")
    return _Shown(report, tokenizer, rules, differences)


def _id_rules(tokenizer: Tokenizer) -> list[Rule]:
    """Return the merges of either variant as `apply_merges` takes them."""
    if isinstance(tokenizer, BPETokenizer):
        return [(pair, new_id) for pair, (_, new_id) in tokenizer._ranks.items()]
    return tokenizer.merges


def _need_like(where: str, value: Any, example: Any) -> None:
    """Refuse `value` unless it has the keys and types of `example`; the first item of a list stands for all.

    A text or a measure may be null; null in the example stands for any value without parts.
    """
    if isinstance(example, dict):
        for key, item in _need_keys(where, value, tuple(example)).items():
            _need_like(f"{where}.{key}", item, example[key])
    elif isinstance(example, list):
        for number, item in enumerate(_need_type(where, value, list)):
            _need_like(f"{where}[{number}]", item, example[0])
    elif example is None or (value is None and isinstance(example, (str, float))):
        if isinstance(value, (dict, list)):
            _refuse(where, value, "a value without parts")
    elif type(value) is not type(example) and not (isinstance(example, float) and type(value) is int):
        _refuse(where, value, _JSON_NAMES[type(example)])


# Parts of the page. Whatever comes from a report or a corpus goes through `_html` or `_visible`.


def _html(value: Any) -> str:
    """Return any value as HTML, harmless as text and as an attribute; unsafe characters are named."""
    import html

    text = f"{value}".encode("utf-8", "backslashreplace").decode("utf-8")
    return html.escape(_UNSAFE.sub(lambda found: f"[U+{ord(found[0]):04X}]", text))


def _visible(data: bytes, tag: str = "i") -> str:
    """Return bytes as HTML; white space, hidden characters and parts of one are signs in a `tag`."""
    shown = []
    for ch in data.decode("utf-8", "surrogateescape"):
        if "\udc80" <= ch <= "\udcff":  # a byte that is no character alone
            ch, sign = f"{ord(ch) - 0xDC00:02X}", True
        else:
            sign = _HIDDEN.match(ch) is not None
            ch = _html(_MARKS.get(ch, f"U+{ord(ch):04X}" if sign else ch))
        shown.append(f"<{tag}>{ch}</{tag}>" if sign else ch)
    return "".join(shown)


def _plain(markup: str) -> str:
    return re.sub("<[^>]*>", "", markup)


def _box(tokenizer: Tokenizer, id: int, kind: str = "", most: int = DRAWN_BYTES) -> str:
    """Return one token as a box, cut after `most` bytes; it says its id and bytes when pointed at."""
    data = tokenizer.token_bytes(id)
    kind = ("b" if len(data) == 1 else "m") + kind
    rest = f"… {len(data)} bytes" if len(data) > most else ""
    shown = data[:most]
    return f'<span class="t {kind}" title="id {id}, bytes {shown.hex(" ")}">{_visible(shown)}{rest}</span>'


def _tokens(text: str, name: str, tokenizer: Tokenizer) -> str:
    """Return a text as its tokens in a row, neighbours told apart by tint and by underline."""
    ids = tokenizer.encode(text)
    boxes = []
    for place, id in enumerate(ids[:SHOWN_TOKENS]):
        line_end = "<br>" if b"\n" in tokenizer.token_bytes(id) else ""
        boxes.append(_box(tokenizer, id, "1" if place % 2 else "", TRAIN_BYTES_LIMIT) + line_end)
    count = f"{_html(name)}: {len(ids)} tokens for {_utf8_length(text)} bytes"
    rest = f"<p>… and {len(ids) - SHOWN_TOKENS} tokens more</p>" if len(ids) > SHOWN_TOKENS else ""
    label = f"{count}. {_html(text)}"
    return f'<h4>{count}</h4><p class="tokens" role="img" aria-label="{label}">{"".join(boxes)}</p>{rest}\n'


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML cells; the first cell of each row names the row."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = (
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption><thead><tr>{top}</tr></thead>\n"
        f"<tbody>{''.join(lines)}</tbody></table></div>\n"
    )


def _figures(caption: str, columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of figures: a column for each mapping, a row for each key with its warning."""
    rows = []
    for key in next(iter(columns.values())):
        remark = f"<small>{_REMARKS[key]}</small>" if key in _REMARKS else ""
        values = [column[key] for column in columns.values()]
        cells = ["none" if v is None else f"{v:.4f}" if isinstance(v, float) else _html(v) for v in values]
        rows.append([key.replace("_", " ") + remark, *cells])
    return _table(caption, ["figure", *columns], rows)


def _each(part: Callable[[_Shown, Corpus], str]) -> Callable[[Sequence[_Shown], Corpus], list[str]]:
    """Return a function that gives `part` for each report, under its label."""
    return lambda shown, corpus: [f"<h3>{one.label()}</h3>\n{part(one, corpus)}" for one in shown]


def _summary(one: _Shown, corpus: Corpus) -> str:
    """Return who a report is: whether it verified, what was trained how, and the learner's words."""
    report, policy = one.report, one.report["policy"]
    facts = {
        "merges": f"{len(one.rules)} learned, budget {policy['merge_budget']}",
        "vocabulary": f"{one.tokenizer.vocab_size} ids",
        "chooses": policy["tie_rule"],
        "stops": policy["stop_rule"],
        "pre-tokens": policy["pre_tokenization"],
        "tokenizer": f"sha256 {report['tokenizer']['sha256'][:12]}…",
        "corpus": f"sha256 {corpus.sha256[:12]}…",
        "implementation": report["implementation"],
    }
    rows = "".join(f"<dt>{name}</dt><dd>{_html(value)}</dd>\n" for name, value in facts.items())
    words = report["explanation"]
    quote = f'<h4>In the learner’s words</h4><blockquote dir="auto">{_html(words)}</blockquote>\n'
    return f"{_verdict(one.differences)}<dl>\n{rows}</dl>\n{'' if words is None else quote}"


def _verdict(differences: Sequence[str]) -> str:
    if not differences:
        return (
            '<p class="note good"><strong>✓ Verified.</strong> Recomputed from the corpus, it is the same. '
            "Only implementation, explanation and predictions cannot be recomputed.</p>\n"
        )
    lines = [*differences[:50], *([f"and {len(differences) - 50} more"] if len(differences) > 50 else [])]
    rows = "".join(f"<li>{_html(line)}</li>" for line in lines)
    return f'<div class="note bad"><strong>✗ Not verified.</strong> It differs:<ul>{rows}</ul></div>\n'


def _merges(one: _Shown, corpus: Corpus) -> str:
    """Return the merges of a report: as trees, and one by one in a table."""
    used: dict[int, list[str]] = {}
    for rank, (pair, _) in enumerate(one.rules):
        for half in dict.fromkeys(pair):
            used.setdefault(half, []).append(f"{rank}")
    counts = [row["count_when_chosen"] for row in one.report["merges"]]
    box, most = functools.partial(_box, one.tokenizer), max([1, *counts])
    rows = []
    for rank, (((left, right), id), count) in enumerate(zip(one.rules[:SHOWN_MERGES], counts)):
        bar = f'<span class="bar" style="width:{max(0, 100 * count // most)}%"></span>'
        joined = f"{box(left)} + {box(right)} → {box(id)}"
        rows.append([f"{rank}", joined, f"{_html(count)}{bar}", ", ".join(used.get(id, "–"))])
    caption = f"{len(rows)} of {len(one.rules)} merges in order, each with its count when it was chosen"
    table = _table(caption, ["rank", "left + right → token", "count", "used by"], rows)
    return f'<div class="forest">\n{_forest(one, used)}</div>\n{table}'


def _forest(one: _Shown, used: Collection[int]) -> str:
    """Return the trees of all tokens that no merge uses further, the highest first."""
    made, size = one.derivations(), one.tokenizer.token_bytes
    roots = [id for id in made if id not in used and len(size(id)) <= DRAWN_BYTES][:SHOWN_MERGES]
    trees = [_tree(id, one.tokenizer, made) for id in roots]
    return "".join(drawing for _, drawing in sorted(trees, key=lambda tree: -tree[0]))


def _tree(root: int, tokenizer: Tokenizer, made: Mapping[int, tuple[int, Pair]]) -> tuple[int, str]:
    """Return (height, SVG) of one token's derivation: its bytes at the foot, each merge over its pair."""
    lines, boxes, width = [], [], 0

    def place(id: int) -> tuple[float, int]:
        """Draw a token over the middle of its bytes; return where it is: x, and its height over the bytes."""
        nonlocal width
        data, start, below, rank = tokenizer.token_bytes(id), width, [], ""
        if id in made:
            below = [place(half) for half in made[id][1]]
            rank = f'<tspan class="rank" dx="4">{made[id][0]}</tspan>'
        else:
            width += 26 * len(data)
        x, level = (start + width) / 2, max((low + 1 for _, low in below), default=0)
        y = -40 * level
        lines.extend(f'<path d="M{at:g} {-40 * low}V{y + 20}H{x:g}V{y}"/>' for at, low in below)
        boxes.append(_tree_box(x, y, _visible(data, "tspan"), rank))
        return x, level

    _, height = place(root)
    name, top = _plain(_visible(tokenizer.token_bytes(root))), 40 * height + 14
    title = f"<title>How the token {name} of rank {made[root][0]} was joined</title>"
    return height, (
        f'<svg role="img" width="{width + 4}" height="{top + 14}" viewBox="-2 {-top} {width + 4} {top + 14}">'
        f"{title}{''.join(lines + boxes)}</svg>\n"
    )


def _tree_box(x: float, y: int, label: str, rank: str) -> str:
    letters = len(re.sub("&[^;]*", "", _plain(label + rank)))
    half = max(11, 4 * letters + (7 if rank else 3))
    kind = "m" if rank else "b"
    return (
        f'<rect class="{kind}" x="{x - half:g}" y="{y - 11}" width="{2 * half}" height="22" rx="4"/>'
        f'<text x="{x:g}" y="{y + 4}">{label}{rank}</text>'
    )


def _held_out_texts(one: _Shown, corpus: Corpus) -> str:
    held_out = [document for document in corpus.documents if document.split != "train"]
    texts = [_tokens(text, f"{split}, {id}", one.tokenizer) for id, split, text in held_out]
    return "".join(texts) + _figures("What the frozen merges cost on each split", one.report["held_out"])


def _curves(shown: Sequence[_Shown], corpus: Corpus) -> list[str]:
    """Return the plot and the table of bytes per token on the validation split, trained anew."""
    most = min(CURVE_LIMIT, max([CURVE_MERGES, *(len(one.rules) for one in shown)]))
    found = {variant: _curve(corpus, variant, most) for variant in VARIANTS}
    curves = {variant: points for variant, points in found.items() if len(points) > 1}
    if not curves:
        return ["<p>This corpus gives no curve.</p>"]
    budgets = sorted({one.report["policy"]["merge_budget"] for one in shown})
    end = max(map(len, curves.values())) - 1
    stops = [n for n in sorted({0, 8, 16, 32, 64, 128, end, *budgets}) if 0 <= n <= end]
    rows = [[f"{n}", *(f"{c[n]:.4f}" if n < len(c) else "–" for c in curves.values())] for n in stops]
    table = _table("Bytes per token on the validation split", ["merges", *curves], rows)
    return [_plot(curves, budgets, end), table]


def _curve(corpus: Corpus, variant: str, most: int) -> list[float]:
    """Return bytes per token on the validation split after 0, 1, 2, ... merges; empty where there is none.

    Trained once: the merges of a smaller budget are the first of a larger one's.
    """
    train, texts = corpus.texts("train"), corpus.texts("validation")
    try:
        if variant == "document":
            tokenizer = Tokenizer.train(train, min(most, MERGE_LIMIT))
        else:
            tokenizer = BPETokenizer.train(train, 256 + most)
    except LimitError:  # a corpus too large for the document variant
        return []
    units = [unit.encode("utf-8") for text in texts for unit, _ in tokenizer._units(text)]
    sequences = [[tokenizer._byte_ids[byte] for byte in unit] for unit in units]
    if not (size := sum(map(len, sequences))):
        return []
    points = [1.0]
    for pair, new_id in _id_rules(tokenizer):
        sequences = [merge_pair(ids, pair, new_id) for ids in sequences]
        points.append(size / sum(map(len, sequences)))
    return points


def _plot(curves: Mapping[str, Sequence[float]], budgets: Iterable[int], end: int) -> str:
    """Return the curves as an SVG with their names on the lines and the budgets marked."""
    high = max(map(max, curves.values()))
    step = next(step for step in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 50, high) if high - 1 <= 5 * step)
    ticks = [1 + step * n for n in range(math.ceil((high - 1) / step) + 1)]

    def x(n: float) -> str:
        """Return the place of a number of merges."""
        return f"{44 + 290 * n / end:.1f}"

    def y(value: float) -> float:
        """Return the height of bytes per token."""
        return round(250 - 225 * (value - 1) / (ticks[-1] - 1 or 1), 1)

    parts = []
    for tick in ticks:
        parts.append(f'<path class="grid" d="M44 {y(tick)}H334"/>')
        parts.append(f'<text class="y" x="38" y="{y(tick) + 4:.1f}">{tick:g}</text>')
    for n in range(0, end + 1, 1 << (end // 6).bit_length()):
        parts.append(f'<text class="x" x="{x(n)}" y="268">{n}</text>')
    for place, n in enumerate(n for n in budgets if 0 <= n <= end):
        parts.append(f'<path class="budget" d="M{x(n)} 250V25"/>')
        parts.append(f'<text x="{x(n)}" dx="5" y="{243 - 17 * place}">budget {n}</text>')
        heights = [y(line[n]) for line in curves.values() if n < len(line)]
        parts += [f'<circle cx="{x(n)}" cy="{height}" r="4"/>' for height in heights]
    label = math.inf  # names keep their distance from the one below
    for name, line in sorted(curves.items(), key=lambda item: item[1][-1]):  # the lowest first
        label = min(y(line[-1]) + 5, label - 17)
        points = " ".join(f"{x(n)},{y(value)}" for n, value in enumerate(line))
        parts.append(f'<polyline class="{name}" points="{points}"/>')
        parts.append(f'<text class="{name}" x="{x(len(line) - 1)}" dx="6" y="{label:.1f}">{name}</text>')
    ends = "; ".join(f"{name} {line[-1]:.2f} at {len(line) - 1} merges" for name, line in curves.items())
    return (
        '<svg class="plot" role="img" aria-labelledby="plot-title plot-desc" viewBox="0 0 420 296">'
        '<title id="plot-title">Bytes per token on the validation split against the number of merges</title>'
        f'<desc id="plot-desc">From 1 to: {ends}.</desc>{"".join(parts)}'
        '<text class="x" x="189" y="290">merges</text><text x="4" y="12">bytes per token</text></svg>\n'
    )


def _baselines_shown(one: _Shown, corpus: Corpus) -> str:
    """Return the baselines of a report, raw bytes beside bpe for each split, and its warnings."""
    found, tables = one.report["baselines"], []
    for split in SPLITS[1:]:
        rows = {name.replace("_", " "): found[name] for name in ("raw_bytes", "bpe")}
        size = "output_alphabet_size"
        columns = {name: {size: row[size], **row[split]} for name, row in rows.items()}
        tables.append(_figures(f"Baselines on the {split} split", columns))
    notes = "".join(f"<li>{_html(note)}</li>" for note in found["notes"])
    return f'<div class="note"><strong>Before comparing</strong><ul>{notes}</ul></div>\n{"".join(tables)}'


def _unseen_shown(one: _Shown, corpus: Corpus) -> str:
    """Return the unseen texts of a report, each as its tokens and as it reads, with its round trip."""
    parts = []
    for number, row in enumerate(one.report["unseen"], 1):
        text, predicted = row["text"], row["bytes_predicted"]
        guess = "" if predicted is None else f"; predicted: {_html(predicted)} bytes"
        back = "comes back" if row["round_trip"] else "does NOT come back"
        parts.append(_tokens(text, f"unseen-{number:02}", one.tokenizer))
        parts.append(f'<p class="reads"><bdi>{_html(text)}</bdi> <small>{back}{guess}</small></p>\n')
    return "".join(parts)


# Each section: its title, its first words, and the function that gives its parts, which stand side by side.
_SECTIONS = (
    (
        "What was trained",
        "Each report was recomputed from the corpus for this page: the box says whether it holds.",
        _each(_summary),
    ),
    (
        "The merges, as they build on each other",
        "Each merge joins the pair that was the most frequent at that moment. Later merges use the tokens of "
        "earlier ones: a tree shows a token over what it was joined from, each merge with its rank.",
        _each(_merges),
    ),
    (
        "The held-out texts, cut into tokens",
        "Training never saw them. A tinted box is a token that a merge made, a grey one a byte that no merge "
        "took; neighbours differ in tint and underline. <i>·</i> is a space, <i>↵</i> a line end, two digits "
        "such as <i>C3</i> a byte that is only part of a character. Point at a box for its id and bytes.",
        _each(_held_out_texts),
    ),
    (
        "Bytes per token against merges",
        "Both variants on the validation split, trained once and stopped after each merge in turn. The gain "
        "shrinks, and compression alone shows no better prediction.",
        _curves,
    ),
    (
        "Baselines side by side",
        "Bigram counts over the training documents, of raw bytes and of tokens, scored on held-out texts.",
        _each(_baselines_shown),
    ),
    (
        "Texts of another kind",
        "Other scripts, code, emoji and the learner’s own: no byte is unknown, every text should come back.",
        _each(_unseen_shown),
    ),
)


# ======================================================================================================================
# Command line
# ======================================================================================================================

BLOCK_BYTES = 1 << 20  # read at a time from files larger than memory


class _Usage(Exception):
    """Wrong usage: one line, exit code 2."""


class _Terminated(BaseException):
    """A signal asked the process to end; raised so that half-written files are taken away."""


def _terminate(*_: Any) -> NoReturn:
    raise _Terminated


def main(argv: Sequence[str] | None = None, *, core: Core = CORE, starter: str | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 bad data, a limit or a failed check, 2 wrong usage.

    `starter` is the path of a starter that calls this with its own `core`: its functions are checked first
    and then build the report.
    """
    program = os.path.basename(starter or __file__)
    try:
        if argv is None:
            signal.signal(signal.SIGTERM, _terminate)
        return _dispatch(list(sys.argv[1:] if argv is None else argv), program, core, starter)
    except _Usage as error:
        return _fail(f"{program}: {error}", 2)
    except BrokenPipeError:  # the reader went away: nothing more is written
        _discard_output()
        return 0
    except KeyboardInterrupt:
        return _fail(f"{program}: interrupted", 130)
    except _Terminated:
        return _fail(f"{program}: terminated", 143)
    except OSError as error:
        _discard_output()
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{program}: {place}{error.strerror or error}", 1)
    except (ValueError, MemoryError) as error:
        return _fail(f"{program}: {str(error) or 'out of memory'}", 1)
    except SystemExit as error:  # after help or version
        return int(error.code or 0)


def _dispatch(argv: list[str], program: str, core: Core, starter: str | None) -> int:
    if starter is not None:
        return _report_command(_report_options(argv, program), program, core, starter)
    if argv[:1] == ["--check-starter"]:  # the child process of `check_starter`
        run_checks(argv[1], lambda text: print(json.dumps(text), file=sys.__stdout__, flush=True))
        return 0
    if argv and argv[0] in _COMMANDS:
        command, options = _COMMANDS[argv[0]]
        return command(options(argv[1:], f"{program} {argv[0]}"))
    return _report_command(_report_options(argv, program), program, core, None)


def _fail(message: str, code: int) -> int:
    """Print one line to standard error, paths in it as they came, and return `code`."""
    _say(message.replace("\r", "\\r").replace("\n", "\\n"))
    return code


def _say(message: str, end: str = "\n") -> None:
    """Print to standard error in UTF-8 under any locale; where that is closed or full, say nothing."""
    try:
        sys.stderr.flush()
        _bytes_of(sys.stderr).write((message + end).encode("utf-8", "surrogateescape"))
        sys.stderr.flush()
    except (AttributeError, OSError, UnicodeError):
        pass


class _AsText:
    """A stream of text, such as one put in place of standard output, as one for bytes."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.flush = stream, stream.flush

    def write(self, data: bytes) -> None:
        """Write UTF-8 as text."""
        self.stream.write(data.decode("utf-8", "replace"))


def _bytes_of(stream: Any) -> Any:
    return getattr(stream, "buffer", None) or _AsText(stream)


def _discard_output() -> None:
    """Throw away what standard output could not take, so that Python does not try again, and fail, at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except AttributeError:  # standard output is closed
        pass


def _utf8_argument(argument: str) -> str:
    """Read an argument that is a text, not a path, as UTF-8 under any locale; what is no UTF-8 stays as it is."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeError:
        return argument


def _standard_output() -> Any:
    """Return standard output for bytes: UTF-8 and line feeds on every platform are the writer's."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    sys.stdout.flush()
    return _bytes_of(sys.stdout)


@contextlib.contextmanager
def _output(path: str) -> Iterator[Any]:
    """Open `-` or a new file for bytes; see `new_file`."""
    if path != "-":
        with new_file(path) as file:
            yield file
    else:
        file = _standard_output()
        yield file
        file.flush()


@contextlib.contextmanager
def _input(path: str) -> Iterator[tuple[str, Any]]:
    """Open `-` or a file for bytes, with its name for messages."""
    if path == "-":
        if sys.stdin is None:
            raise OSError("standard input is closed")
        yield "standard input", getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode("utf-8"))
    else:
        with open(path, "rb") as file:
            yield path, file


def _refuse_existing(path: str | None) -> None:
    """Refuse a path that is taken, before any work."""
    if path not in (None, "-") and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, _TAKEN, path)


def _parser(program: str, example: str, description: str) -> Any:
    """Return an argument parser whose errors are one line and no usage block."""
    import argparse

    class _Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            """End with one line instead of the usage block."""
            raise _Usage(f"{message}; see {self.prog} -h")

        def _print_message(self, message: str, file: Any = None) -> None:
            """Print help or version; argparse itself would hide a full disk or a closed pipe."""
            out = _standard_output()
            out.write(message.encode("utf-8"))
            out.flush()

    parser = _Parser(
        prog=program,
        allow_abbrev=False,
        description=description,
        epilog=f"example:\n  python3 -B {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tokenizer.py {__version__}")
    return parser


# ---- the report: no subcommand ----


def _report_command(options: Any, program: str, core: Core, starter: str | None) -> int:
    """Build the report and write it."""
    _refuse_existing(options.output)
    if starter is not None and (wrong := check_starter(starter)):
        _say(f"{program}: no report yet: {wrong}")
        return 1
    corpus = _read_corpus_option(options.corpus)
    arguments = {
        "variant": options.variant,
        "merge_budget": options.merges,
        "unseen": options.unseen,
        "explanation": options.explanation,
    }
    report = build_report(corpus, **arguments)
    if starter is not None:
        build = functools.partial(build_report, corpus, **arguments, core=core, implementation="starter")
        report = _starter_report(report, build)
    with _output(options.output) as file:
        file.write((format_json(report) + "\n").encode("utf-8"))
    return 0


def _starter_report(report: dict[str, Any], build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the report of a starter, refusing one that is not the reference's: no check knows every fault."""
    try:
        own = build()
    except Exception as error:  # a fault of the starter's functions that only this corpus brings out
        raise TokenizerError(
            f"no report yet: the three functions fail on this corpus: {type(error).__name__}: {error}"
        ) from None
    for key in report:
        if key != "implementation" and own[key] != report[key]:
            raise TokenizerError(f"no report yet: {key} differs from the reference's on this corpus")
    return own


def _read_corpus_option(path: str | None) -> Corpus:
    if path == "-":
        with _input(path) as (name, file):
            return parse_corpus(file.read(), name)
    return read_corpus(path or os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus.json"))


_CORPUS_HELP = "default: the corpus.json beside the script"
_OUTPUT_HELP = "a new file; - for standard output (default)"


def _report_options(argv: list[str], program: str) -> Any:
    import argparse

    unseen: list[tuple[str, int | None]] = []

    def _add_unseen(text: str) -> None:
        unseen.append((_utf8_argument(text), None))

    def _add_prediction(text: str) -> None:
        if not unseen or unseen[-1][1] is not None:
            raise argparse.ArgumentTypeError("it belongs behind an --unseen TEXT, once")
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise argparse.ArgumentTypeError(f"got {_show(text)}; only a byte count is supported")
        unseen[-1] = (unseen[-1][0], int(text))

    commands = "" if program == "starter.py" else f"; subcommands: {', '.join(_COMMANDS)} (each with -h)"
    parser = _parser(
        program, f"{program} --output my-report.json", f"Train on corpus.json and write the report{commands}."
    )
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", default="-", help=_OUTPUT_HELP)
    add("--corpus", metavar="FILE", help=_CORPUS_HELP)
    add("--variant", choices=VARIANTS, default="document")
    add(
        "--merges",
        metavar="N",
        type=int,
        default=MERGE_BUDGET,
        help=f"the merge budget (default {MERGE_BUDGET})",
    )
    add("--unseen", metavar="TEXT", type=_add_unseen, help="a text of your own; repeatable")
    add(
        "--predict",
        metavar="N",
        type=_add_prediction,
        help="the byte count you expect of the --unseen before it",
    )
    add("--explanation", metavar="TEXT", type=_utf8_argument, help="what you predicted, saw and repaired")
    options = parser.parse_args(argv)
    options.unseen = unseen
    return options


# ---- files larger than memory ----


def read_blocks(file: Any, name: str = "data", size: int = BLOCK_BYTES) -> Iterator[str]:
    """Yield the text of an open binary file in blocks of about `size` bytes, never inside a character.

    Line ends stay as they are. Invalid UTF-8 is a FormatError with the byte's position in the file.
    """
    done, rest = 0, b""
    while block := file.read(size):
        data = rest + block
        try:
            text = data.decode("utf-8")
            rest = b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data" or len(data) - error.start > 3:
                raise _utf8_error(name, data, error, done) from None
            text, rest = data[: error.start].decode("utf-8"), data[error.start :]
        done += len(data) - len(rest)
        if text:
            yield text
    if rest:
        _decode_utf8(rest, name, done)


def safe_pieces(blocks: Iterable[str], added: Iterable[str] = ()) -> Iterator[str]:
    """Join and cut `blocks` so that encoding or counting piece by piece equals doing it to the whole text.

    A cut stands before a white-space character that follows another character, where a pre-token ends whatever
    comes after (the boundary lemma of `_chunk_expression`), and never inside a text of `added`. Memory follows the
    longest run without such a place.
    """
    inside = [(text, cut.end()) for text in added for cut in _place_to_cut().finditer(text)]
    longest = max((len(text) for text, _ in inside), default=0)
    waiting: list[str] = []
    tail = ""  # the end of what waits: enough to see an added text that stands across the blocks
    for block in blocks:
        waiting.append(block)
        text = tail + block
        if cut := _last_cut(text, inside, max(len(tail) - longest, 0), len(text) - longest):
            joined = "".join(waiting)
            cut += len(joined) - len(text)
            yield joined[:cut]
            text = joined[cut:]
            waiting = [text]
        tail = text[-2 * longest or -1 :]
    if rest := "".join(waiting):
        yield rest


@lru_cache(maxsize=None)
def _place_to_cut() -> re.Pattern[str]:
    return re.compile(f"[^{_SPACES}](?=[{_SPACES}])")


def _last_cut(text: str, inside: list[tuple[str, int]], start: int, end: int) -> int:
    """Return the last place to cut `text`, or 0.

    `inside` holds added texts with a place to cut inside them, which is none. Places before `start` were looked at
    before, and behind `end` an added text might stand that is not all here.
    """
    if not inside:
        found = _up_to_last_cut().match(text)
        return found.end() if found else 0
    for place in reversed([found.end() for found in _place_to_cut().finditer(text)]):
        if start <= place <= end and not any(
            text.startswith(content, place - offset) for content, offset in inside if offset <= place
        ):
            return place
    return 0


@lru_cache(maxsize=None)
def _up_to_last_cut() -> re.Pattern[str]:
    return re.compile(f"(?s:.*)[^{_SPACES}](?=[{_SPACES}])")


# ---- subcommands ----


def load_model(path: str | os.PathLike[str]) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, a folder with `vocab.json` and `merges.txt`, a payload or a report.

    What it is is found out from what it holds; a FormatError says when it is none of these.
    """
    if os.path.isdir(path):
        return BPETokenizer.from_gpt2(os.path.join(path, "vocab.json"), os.path.join(path, "merges.txt"))
    name, data = _read_json(path)
    try:
        if isinstance(data, dict) and "format" in data:
            return Tokenizer.from_payload(data)
        if isinstance(data, dict) and data.get("schema") == REPORT_SCHEMA and "tokenizer" in data:
            return Tokenizer.from_payload(data["tokenizer"])
        if isinstance(data, dict) and "model" in data:
            return BPETokenizer._from_tokenizer_json(data, "")
    except TokenizerError as error:
        raise FormatError(f"{name}: {error}") from None
    raise FormatError(
        f"{name}: no model, got {_show(data)}; only a tokenizer.json, a folder with vocab.json and merges.txt, "
        "a payload and a report are supported"
    )


def _train_options(argv: list[str], program: str) -> Any:
    parser = _parser(
        program,
        "tokenizer.py train corpus.txt --vocab-size 4096 -o tokenizer.json",
        "Train a gpt2 tokenizer on files of UTF-8 text and write the tokenizer.json. Files are read as streams.",
    )
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="a document; - for standard input")
    add(
        "--vocab-size",
        metavar="N",
        type=int,
        required=True,
        help="how many ids, the 256 byte symbols and specials included",
    )
    add(
        "--special",
        metavar="TEXT",
        type=_utf8_argument,
        action="append",
        default=[],
        help="a special token; repeatable",
    )
    add(
        "--min-freq",
        metavar="N",
        type=int,
        default=2,
        help="the smallest count still worth a merge (default 2)",
    )
    add(
        "--lines",
        action="store_true",
        help="each line is a document, its line end kept, as Hugging Face reads files",
    )
    add("--workers", metavar="N", type=int, default=1, help="processes that count (default 1)")
    add("-o", "--output", metavar="FILE", required=True, help="a new tokenizer.json")
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    return parser.parse_args(argv)


def _train_command(options: Any) -> int:
    _refuse_existing(options.output)
    _check_training(options.vocab_size, options.special, options.min_freq)
    for path in options.files:
        if path != "-":
            os.stat(path)  # a missing file is found before the others are read
    texts = _document_pieces(options.files, options.special, options.lines)
    progress = _progress_bar(options.quiet)
    tokenizer = BPETokenizer.train(
        texts,
        options.vocab_size,
        options.special,
        options.min_freq,
        workers=options.workers,
        progress=progress,
    )
    if options.output == "-":
        with _output("-") as file:
            file.write(tokenizer._tokenizer_json_text().encode("utf-8"))
    else:
        tokenizer.save(options.output)
    if progress:
        _say("")  # ends the line of the bar
    if not options.quiet:
        reached = tokenizer.vocab_size == options.vocab_size
        why = "the size asked for" if reached else f"no pair is left that occurs {options.min_freq} times"
        _say(f"{tokenizer.vocab_size} ids, {len(tokenizer.merges)} merges; stopped at {why}")
    return 0


def _document_pieces(paths: Iterable[str], added: Sequence[str], lines: bool) -> Iterator[str]:
    """Yield texts whose pre-tokens are those of the files: each file a document, or each of its lines."""
    for path in paths:
        with _input(path) as (name, file):
            blocks = read_blocks(file, name)
            if not lines:
                yield from safe_pieces(blocks, added)
                continue
            rest = ""
            for block in blocks:
                *whole, rest = (rest + block).split("\n")
                yield from (line + "\n" for line in whole)
            if rest:
                yield rest


def _progress_bar(quiet: bool) -> Callable[[str, int, int | None], None] | None:
    """Return a progress function that draws on standard error, or None where that is no terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        return None

    def _draw(stage: str, done: int, total: int | None) -> None:
        if total:
            filled = 30 * done // total
            bar = f"[{'#' * filled}{'.' * (30 - filled)}] {100 * done // total:3}%"
            _say(f"\r{stage:6} {bar}", end="")
        else:
            _say(f"\r{stage:6} {done}", end="")

    return _draw


def _model_parser(program: str, example: str, description: str) -> Any:
    parser = _parser(program, example, description)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a tokenizer.json, a folder with vocab.json and merges.txt, a payload, or a report",
    )
    return parser


def _encode_options(argv: list[str], program: str) -> Any:
    parser = _model_parser(
        program,
        "tokenizer.py encode tokenizer.json corpus.txt --format u16 -o corpus.u16",
        "Encode UTF-8 text. With gpt2 models it is read as a stream; a document model reads all of it first.",
    )
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", default="-", help="the text; - for standard input (default)")
    add(
        "--format",
        choices=("ids", "json", "tokens", "u16", "u32"),
        default="ids",
        help="ids: decimal, one a line (default); json: one array; tokens: one JSON string a line; "
        "u16, u32: little-endian integers",
    )
    add("--count", action="store_true", help="print only tokens, bytes, and bytes per token")
    add("--no-special", action="store_true", help="find no added tokens in the text: for text from strangers")
    add("--workers", metavar="N", type=int, default=1, help="processes that encode (default 1)")
    add("-o", "--output", metavar="FILE", default="-", help=_OUTPUT_HELP)
    add("-q", "--quiet", action="store_true", help="print nothing but errors to standard error")
    return parser.parse_args(argv)


def _encode_command(options: Any) -> int:
    _refuse_existing(options.output)
    tokenizer = load_model(options.model)
    if options.format == "u16" and tokenizer.vocab_size > 65536 and not options.count:
        raise TokenizerError(
            f"--format u16: vocabulary too large, got {tokenizer.vocab_size} ids; at most 65536 are supported"
        )
    with _input(options.file) as (name, file), _output(options.output) as out:
        pieces = _Measured(_encodable_pieces(tokenizer, name, file, options))
        packed = tokenizer._packed_iter(pieces, options.workers, _special_option(tokenizer, options))
        if not options.count:
            _write_ids(out, packed, options.format, tokenizer)
        else:
            tokens = sum(map(len, packed)) // array(tokenizer._code).itemsize
            ratio = f"{pieces.size / tokens:.6g}" if tokens else "null"
            out.write(f"tokens {tokens}\nbytes {pieces.size}\nbytes_per_token {ratio}\n".encode("ascii"))
    return 0


class _Measured:
    """Texts that pass by, and their size in bytes so far."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.size = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.size += _utf8_length(text)
            yield text


def _encodable_pieces(tokenizer: Tokenizer, name: str, file: Any, options: Any) -> Iterator[str]:
    blocks = read_blocks(file, name)
    if isinstance(tokenizer, BPETokenizer):
        return safe_pieces(blocks, () if options.no_special else tokenizer.added)
    if not options.quiet:
        _say("a document model encodes the text as a whole: reading all of it first")
    return iter(["".join(blocks)])


def _write_ids(out: Any, packed: Iterable[bytes], kind: str, tokenizer: Tokenizer) -> None:
    """Write packed ids in one of the formats of `encode`, piece by piece."""
    if kind in ("u16", "u32"):
        code = {"u16": "H", "u32": "I"}[kind]
        as_they_are = code == tokenizer._code and sys.byteorder == "little"
        for ids in packed:
            out.write(ids if as_they_are else _little_endian(_unpack(ids, tokenizer._code), code))
        return
    pieces = (_unpack(ids, tokenizer._code) for ids in packed)
    if kind == "json":
        lead = b"["
        for ids in filter(None, pieces):
            out.write(lead + json.dumps(ids)[1:-1].encode("ascii"))
            lead = b", "
        out.write(b"]\n" if lead == b", " else b"[]\n")
    else:
        show = str if kind == "ids" else lambda id: json.dumps(tokenizer.id_to_token(id), ensure_ascii=False)
        for ids in pieces:
            out.write("".join(f"{show(id)}\n" for id in ids).encode("utf-8"))


def _little_endian(ids: Iterable[int], code: str) -> bytes:
    packed = array(code, ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _decode_options(argv: list[str], program: str) -> Any:
    parser = _model_parser(
        program,
        "tokenizer.py decode tokenizer.json ids.txt",
        "Decode ids to UTF-8 text, as a stream, nothing added.",
    )
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", default="-", help="the ids; - for standard input (default)")
    add(
        "--format",
        choices=("ids", "json", "u16", "u32"),
        default="ids",
        help="as encode writes them (default ids)",
    )
    add("--skip-special", action="store_true", help="leave special tokens out")
    add("-o", "--output", metavar="FILE", default="-", help=_OUTPUT_HELP)
    return parser.parse_args(argv)


def _decode_command(options: Any) -> int:
    _refuse_existing(options.output)
    tokenizer = load_model(options.model)
    with _input(options.file) as (name, file), _output(options.output) as out:
        ids = _read_ids(file, name, options.format)
        for text in tokenizer.decode_stream(ids, skip_special=options.skip_special):
            out.write(text.encode("utf-8"))
    return 0


def _read_ids(file: Any, name: str, kind: str) -> Iterator[int]:
    """Yield ids from one of the formats of `decode`."""
    if kind == "ids":
        for number, line in enumerate(file, 1):
            word = line.strip()
            if not word.isdigit() or len(word) > 18:
                raise FormatError(
                    f"{name}: line {number}: got {_show(word.decode('utf-8', 'replace'))}; "
                    "only one id, in decimal, is supported"
                )
            yield int(word)
    elif kind == "json":
        ids = _need_type(f"{name}: top level", parse_json(_decode_utf8(file.read(), name), name), list)
        for number, value in enumerate(ids):
            yield _need_type(f"{name}: [{number}]", value, int)
    else:
        yield from _read_packed(file, name, kind)


def _read_packed(file: Any, name: str, kind: str) -> Iterator[int]:
    width, rest = {"u16": 2, "u32": 4}[kind], b""
    while block := file.read(BLOCK_BYTES):
        data = rest + block
        whole = len(data) - len(data) % width
        packed = array({"u16": "H", "u32": "I"}[kind], data[:whole])
        if sys.byteorder == "big":
            packed.byteswap()
        yield from packed
        rest = data[whole:]
    if rest:
        raise FormatError(
            f"{name}: got {len(rest)} bytes at the end; only whole integers of {width} bytes are supported"
        )


def _explain_options(argv: list[str], program: str) -> Any:
    parser = _model_parser(
        program,
        "tokenizer.py explain tokenizer.json 'hugs pug'",
        "Show the pre-tokens of a text, each merge in the order it happens with its rank, and the ids.",
    )
    add = parser.add_argument
    add("text", metavar="TEXT", type=_utf8_argument)
    add("--json", action="store_true", help="the same for machines")
    add("--no-special", action="store_true", help="find no added tokens in the text")
    add("-o", "--output", metavar="FILE", default="-", help=_OUTPUT_HELP)
    return parser.parse_args(argv)


def _explain_command(options: Any) -> int:
    _refuse_existing(options.output)
    tokenizer = load_model(options.model)
    explained = tokenizer.explain(options.text, **_special_option(tokenizer, options))
    terminal = options.output == "-" and sys.stdout is not None and sys.stdout.isatty()
    coloured = terminal and not os.environ.get("NO_COLOR")
    text = format_json(explained) if options.json else "\n".join(_explained_lines(explained, coloured))
    with _output(options.output) as out:
        out.write((text + "\n").encode("utf-8"))
    return 0


def _special_option(tokenizer: Tokenizer, options: Any) -> dict[str, bool]:
    """Return the keywords of `encode` that `--no-special` stands for; a document model has none to give."""
    return {"parse_special": not options.no_special} if isinstance(tokenizer, BPETokenizer) else {}


def _explained_lines(explained: dict[str, Any], coloured: bool) -> Iterator[str]:
    """Yield the lines that `explain` prints: each piece, its merges one by one, then all ids."""

    def _paint(tokens: Sequence[str]) -> str:
        if not coloured:
            return " ".join(tokens)
        return " ".join(f"\x1b[{(36, 33)[place % 2]}m{token}\x1b[0m" for place, token in enumerate(tokens))

    for piece in explained["pieces"]:
        kind = "added token" if piece["added"] else explained["unit"]
        yield f"{kind} {json.dumps(piece['text'], ensure_ascii=False)}"
        if piece["dropped"]:
            yield f"  dropped   {' '.join(f'0x{byte:02x}' for byte in piece['dropped'])}  (no symbol in the vocabulary)"
        if not piece["added"]:
            yield f"  start     {_paint(piece['symbols'])}"
        for step in piece["merges"]:
            left, right = step["pair"]
            yield f"  rank {step['rank']:<5}{left} + {right} -> {left + right}:  {_paint(step['symbols'])}"
        yield f"  ids       {' '.join(f'{id}' for id in piece['ids'])}"
    yield f"{len(explained['ids'])} ids: {explained['ids']}"


def _verify_options(argv: list[str], program: str) -> Any:
    parser = _parser(
        program,
        "tokenizer.py verify my-report.json",
        "Recompute a report from its corpus and print what differs.",
    )
    add = parser.add_argument
    add("report", metavar="REPORT", help="- for standard input")
    add("--corpus", metavar="FILE", help=_CORPUS_HELP)
    add("-o", "--output", metavar="FILE", default="-", help=_OUTPUT_HELP)
    add("-q", "--quiet", action="store_true", help="print differences only")
    return parser.parse_args(argv)


def _verify_command(options: Any) -> int:
    _refuse_existing(options.output)
    with _input(options.report) as (name, file):
        report = parse_json(_decode_utf8(file.read(), name), name)
    found = verify_report(report, _read_corpus_option(options.corpus))
    lines = [f"differs: {difference}" for difference in found[:50]]
    if len(found) > 50:
        lines.append(f"differs: and {len(found) - 50} more")
    if not found and not options.quiet:
        lines = [f"verified: {key}" for key in REPORT_KEYS if key not in _UNVERIFIABLE]
        lines += [f"not verifiable: {key}, {_show(report[key])}" for key in _UNVERIFIABLE]
    with _output(options.output) as out:
        out.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    return 1 if found else 0


def _view_options(argv: list[str], program: str) -> Any:
    parser = _parser(
        program,
        "tokenizer.py view my-report.json my-gpt2-report.json -o page.html",
        "Show one or two reports on the same corpus as one HTML page that needs no network.",
    )
    add = parser.add_argument
    add("reports", metavar="REPORT", nargs="+", help="one or two; - for standard input")
    add("--corpus", metavar="FILE", help=_CORPUS_HELP)
    add("-o", "--output", metavar="FILE", required=True, help="a new file; - for standard output")
    options = parser.parse_args(argv)
    if len(options.reports) > 2:
        parser.error(f"REPORT: got {len(options.reports)}; one or two are supported")
    return options


def _view_command(options: Any) -> int:
    _refuse_existing(options.output)
    corpus, shown = _read_corpus_option(options.corpus), []
    for path in options.reports:
        with _input(path) as (name, file):
            shown.append(_checked_report(parse_json(_decode_utf8(file.read(), name), name), corpus))
    with _output(options.output) as out:
        out.write(_page(shown, corpus).encode("utf-8"))
    if differences := sum(len(one.differences) for one in shown):
        return _fail(f"tokenizer.py: not verified, {differences} differences; the page names them", 1)
    return 0


_COMMANDS: dict[str, tuple[Callable[[Any], int], Callable[[list[str], str], Any]]] = {
    "train": (_train_command, _train_options),
    "encode": (_encode_command, _encode_options),
    "decode": (_decode_command, _decode_options),
    "explain": (_explain_command, _explain_options),
    "verify": (_verify_command, _verify_options),
    "view": (_view_command, _view_options),
}


# ======================================================================================================================
# Packed tables, and the template of the page
# ======================================================================================================================

# The numbers that Unicode 17.0 has and 16.0 has not, as [first, past the last, ...]: only the Digits step takes them.
_DIGITS_SINCE_17 = (0x11DE0, 0x11DEA, 0x16FF4, 0x16FF7)

# Letters (L*, 677 ranges) and numbers (N*, 144 ranges) of Unicode 16.0: from range to range the distance to its
# first code point and its length, as base-128 varints, compressed, in Base64. `_class_bounds` unpacks them.
_LETTERS = (
    "eNpdVE+IG1UY5/e9fzMvM5OZSbKTZJNMdpONm2R3k+3+sd2FNu3aXUoPFcXKChZERFARoXvTQ5UWD9qLBw8KPah4EyoU"
    "dD1VqCyoPfnnKKXUelDqVfTiN0kr1Jl5b3jf+37v+33/3vGqrg5gIaESpPhWSC9QBsCbUCCSgAYEr4t4Eu/A+RToEHR3"
    "Z1rKxX6L8DyQJ0NWEEKgUd/NoTzjMlBNSbgMTSomp8rQUW9jXSCGsflQOkQ0BbYjpGCcTxABWThaTuSUvSlbL4gwO2Qi"
    "Uxk+TwlyD/BjWYPReURMVQhIJgKQICGEN4VVJ6OAUKDKG0QNyInEZsiURXmKMgvdjL8SjihrFYsyUweZjSHIMxvZiQpl"
    "ni3IBSmgJJs45qA9rc73iwi1ZD8EGSF9D1EnU6c+bhIkZcGU1OUx898qjyM8b82F4VnS4g9JEarqtHZM7BeCOPDZn9UW"
    "52Rr1yia5dO2bbrcIJVbkNX1xF17As8OIme94ZNdqLa7wrYpp/okupLTRQLqOkbvE2nq8HAweVJaG0dcgGmSlj4HwOzB"
    "R+i/wLY4/BBKT3QlciSVklilf4q/QnNUvYlXhw3CxDV46H0cPwnqKUXyrBZ4BlL1cS5qDsML8vrK6PJn2FqiyyRCS8VB"
    "mNL2sksv0hZlcXVKIUdfIqmvBoeOMhqUq9mkUjeDGkIFaxW6iYBT5EkcYo5EKgOWBeWM8DR7qMd8+gj0+fonT3uJXL54"
    "4h7RSx3jKZUlzWfmGBfVKzO/Uzyi9XlvT+FttLn8c7tifAiJlocqCqyVp2D29UuiLpYHTb/IZdmxDWpLZ3gFcVu25byz"
    "6uWQHxfg/b9Y9b4gd8o6ZY0e3JOaOS5kuaDEJm56nI+1U7a6fVjTCHnJPtd7dVFvOahNr/NOwY9fPfXoir/itzs1N/kb"
    "PU2h2KxzU0z14qXSdOKtHeGI+YvNSrVdZ8NOS8AbBrLErrViVAp0bFxdzMeaQeehFonhqYbNQgBOY4XVFtZiWRSNYZFF"
    "X2LQle1hEZt9HzvTc2YfC3uj1OGAOQwp51n/nEOPcIOjBjtvUEJuqYD41AFmUhdzEZYbr2WmOiVUuALRDHBABcb5mH0D"
    "Zz4wd3ED3xefy191Il35MFUHcn+tcdvflyaNzkSNeBjKtKQKV8XiDxhdwGmFE/6IqdX+Gjg/u13720k59uVj7p06d3Ig"
    "nXfFxfhl5QvX2LtLT2GHu5s/vnk8pmlwnDvM4X8tu9u4bAx+JKqw7+n/hnMtSLW+REffw6I1Ib6mRrxwR9TuZBfLn4yT"
    "WUXgG2w+ZnDNlZjOwkgY35rILkg5aRpxX/7gyVYZazlWsIg4EQrRjdlbN6n5VVP/AnprMfh8I39PflS4Im/nvuuoW81/"
    "AerOgUk="
)
_NUMBERS = (
    "eNoljz1IQmEUhjnnu9+Pr5qlV0tCa4ikwJBqiRyaXJRGt6DJHOwHAqnN6UIR0WQQEQXlUjQ2NViDgwRNGm2BEDREtNjQ"
    "0r20HDiHl+c8bwY7LInFhR8OoUU4FajCUhV3VsFqI7gNo9dQ1jqyjlX3lrMPGDk8S/tbiS+CQgw3jBr5r7zljlD0UAp1"
    "Q0IplznHsiuzy7G+lfwA7SmK+wbEC1v7hKSh0DhSobd3wj2hyeqEMOl5xFxMXaDeIHyKdGBhiDs8OmElyJBDsk241Sau"
    "U768jKlzYh7kmSXfPCdFXpbNiJnSbVYZz4LHzgjT1pZ2KFkjZHFE0PYvoctumz6jBGUXApcisoK6RDHRI7deQ6AUvTab"
    "D7tohP8bkT604PDwqyva8tsBuxLvmNlm2Mv2BX4IT9LnfjhWiyTIKqQp9KiDvSj+AFQ2SK0="
)

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>What the tokenizer learned</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>What the tokenizer learned</h1>
{body}</main>
</body>
</html>
"""

_STYLE = """\
:root { --page: #fff; --ink: #1b2230; --soft: #556074; --line: #c3c9d4; --byte: #eceef2; --byte1: #e0e3ea;
  --one: #c9ece3; --two: #e4dafa; --edge: #4a6d84;
  --doc: #0b57a4; --gpt: #a8420a; --good: #e3f4e6; --bad: #fde4e1 }
@media screen and (prefers-color-scheme: dark) { :root { --page: #14171c; --ink: #e7eaf0; --soft: #a6b0c0;
  --line: #3c4452; --byte: #262b34; --byte1: #303743; --one: #164a41; --two: #3f3067; --edge: #8fb0c6;
  --doc: #7db9ff; --gpt: #ffb07a; --good: #173a20; --bad: #55201b } }
* { box-sizing: border-box; overflow-wrap: anywhere }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 76rem; margin: 0 auto; padding: 1rem }
section { border-top: 1px solid var(--line); margin-top: 2rem }
h1, h2, h3, h4 { line-height: 1.25 } h4 { margin: 1rem 0 .25rem; font-size: 1rem } p { max-width: 46rem }
.parts { display: grid; gap: 0 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)) }
.part { min-width: 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0 } dd { margin: 0 }
dt, small, caption { color: var(--soft) } th small { display: block; font-weight: normal }
blockquote { margin: 0; padding: .25rem 1rem; border-inline-start: 4px solid var(--edge) }
blockquote, .reads, .t { white-space: pre-wrap; unicode-bidi: isolate }
.note { margin: 0 0 1rem; padding: .5rem .75rem; border: 1px solid var(--edge); border-radius: 4px }
.note ul { margin: .25rem 0; padding-inline-start: 1.25rem }
.good { background: var(--good) } .bad { background: var(--bad) }
.wide { overflow-x: auto; margin: 1rem 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th, td, caption { text-align: start; overflow-wrap: normal } tbody th { font-weight: normal }
.bar { display: block; height: 4px; min-width: 1px; background: var(--edge) }
.t, svg text { font: 14px/1.35 ui-monospace, "DejaVu Sans Mono", Consolas, monospace }
.t { display: inline-block; max-width: 100%; margin: 1px; padding: 0 2px; border: 1px solid var(--line);
  border-bottom: 2px solid var(--edge); border-radius: 3px; background: var(--byte) }
.b1 { background: var(--byte1) } .m { background: var(--one) } .m1 { background: var(--two) }
.b1, .m1 { border-bottom-style: dotted }
i { font-style: normal; font-weight: 600; font-size: .85em; color: var(--soft); margin: 0 1px }
.m i, .m1 i { color: inherit }
.tokens { max-width: none; margin: .25rem 0; line-height: 1.9 } .reads { margin: 0 }
.forest { display: flex; flex-wrap: wrap; align-items: flex-end; gap: 1rem 1.25rem; overflow-x: auto }
svg { flex: none; fill: none } svg path, rect { stroke: var(--edge) } svg .rank { font-size: 10px }
svg text { fill: var(--ink); text-anchor: middle } svg tspan { fill: var(--soft) }
rect.b { fill: var(--byte) } rect.m { fill: var(--one) }
.plot { width: 100%; max-width: 34rem; margin: 1rem 0 } .plot text { text-anchor: start }
.plot .x { text-anchor: middle } .plot .y { text-anchor: end } .plot circle { fill: var(--ink) }
.plot .grid { stroke: var(--line) } .plot .budget { stroke: var(--soft); stroke-dasharray: 3 3 }
polyline { stroke-width: 2 } polyline.document { stroke: var(--doc) } .plot text.document { fill: var(--doc) }
polyline.gpt2 { stroke: var(--gpt); stroke-dasharray: 8 3 } .plot text.gpt2 { fill: var(--gpt) }
@media (max-width: 30rem) { th, td { padding-right: .5rem } .part { font-size: .9375rem } }
@media print { * { print-color-adjust: exact; -webkit-print-color-adjust: exact } body { font-size: 10pt }
  svg, p, table, .note { break-inside: avoid } h2, h3, h4, section > p { break-after: avoid }
  .wide, .forest { overflow: visible } }
"""

if __name__ == "__main__":
    sys.exit(main())
