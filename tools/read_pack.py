#!/usr/bin/env python3
"""An independent reader of packhorse packs: plain Python, written from docs/format/manifest.md and docs/format/shard.md alone.

    read_pack.py verify [--no-crc] [--id VERSION] PACK    check all that the two pages say
    read_pack.py list PACK                                keys in text form
    read_pack.py cat PACK KEY                             bytes of a sample, by its key in text form
    read_pack.py vectors [FILE]                           make fixtures/v1/vectors.json

A section of the pages is named as (M 4) for manifest.md, section 4, or (S Footer) for shard.md.
"""
import argparse
import bisect
import hashlib
import mmap
import re
import struct
import sys
from decimal import Decimal
from pathlib import Path

try:
    from compression import zstd            # Python 3.14 and later
except ImportError:
    zstd = None

MAX_SAMPLES, MAX_SEGMENTS, MAX_MANIFEST = 262_144, 8_192, 1 << 30
STRING, INT, FLOAT, BOOL = 1, 2, 3, 4
HEX, NUM = "[0-9a-f]{64}", "(?:0|[1-9][0-9]*)"


class Fault(Exception):
    """Something that is not as the pages say, with its file and the offset in it."""

    def __init__(self, file, offset, text):
        super().__init__(f"{file}: at {offset}: {text}")


def need(ok, file, offset, text):
    if not ok:
        raise Fault(file, offset, text)


def sha256(data):
    return hashlib.sha256(data).digest()


# ---- keys and text forms (M 1) and attributes of `sample` lines (M 4)

def key_fault(key):
    """Why these bytes are no key, or None."""
    if not 1 <= len(key) <= 65_535:
        return "a key has 1 to 65,535 bytes"
    if b"\0" in key or any(part in (b"", b".", b"..") for part in key.split(b"/")):
        return "a key has no zero byte and no part that is empty, `.` or `..`"


def to_text(data, more=""):
    """Text form of bytes. What is not UTF-8 becomes U+DC80 to U+DCFF here, one for each byte."""
    text = data.decode("utf-8", "surrogateescape")
    return re.sub(f"[%\x00-\x1f\x7f\udc80-\udcff{more}]", lambda m: "%%%02X" % (ord(m[0]) & 0xFF), text)


def from_text(text, encode=to_text):
    """The bytes of a text form. The form is unique, so it must come out again."""
    data = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode("utf-8"))
    if encode(data) != text:
        raise ValueError(f"`{text}` is not the text form of any bytes")
    return data


def value_text(data):
    """Text form of a string attribute, where ` `, `,`, `=`, `:` and a leading `-` are escaped as well."""
    text = to_text(data, " ,=:")
    return "%2D" + text[1:] if text.startswith("-") else text


def float_bits(value):
    """Bits of a float attribute: -0 becomes 0, NaN is refused (M 2)."""
    if value != value:
        raise ValueError("NaN is no attribute")
    return struct.pack("<d", value + 0.0 if value else 0.0)


def float_text(value):
    """Shortest decimal that reads back the same; read here as: digits without exponent, no `.0`, or `inf`."""
    text = format(Decimal(repr(value)), "f") if abs(value) != float("inf") else repr(value)
    return text[:-2] if text.endswith(".0") else text


def attrs_text(attrs):
    """The word ATTRS. `attrs` is {name: (type, value)}; a string's value is bytes."""
    form = {STRING: value_text, INT: lambda v: f"i:{v}", FLOAT: lambda v: f"f:{float_text(v)}",
            BOOL: lambda v: "b:true" if v else "b:false"}
    return ",".join(f"{name}={form[kind](value)}" for name, (kind, value) in sorted(attrs.items())) or "-"


def parse_attrs(word):
    attrs = {}
    for pair in word.split(",") if word != "-" else ():
        name, _, text = pair.partition("=")
        if text.startswith("i:"):
            attrs[name] = INT, int(text[2:])
            if not -1 << 63 <= attrs[name][1] < 1 << 63:
                raise ValueError(f"`{text}` is out of range")
        elif text.startswith("f:"):
            attrs[name] = FLOAT, float(text[2:])
        elif text.startswith("b:"):
            attrs[name] = BOOL, text == "b:true"
        else:
            attrs[name] = STRING, from_text(text, value_text)
    if attrs_text(attrs) != word:
        raise ValueError(f"`{word}` is not the one form of these attributes")
    return attrs


# ---- digests (M 2)

def sample_leaf(key, fields):
    """`fields`: (name, size, SHA-256) in byte order of names."""
    parts = [b"\0packhorse.sample.1\0", struct.pack("<I", len(key)), key, struct.pack("<H", len(fields))]
    for name, size, digest in fields:
        parts += struct.pack("<H", len(name)), name, struct.pack("<Q", size), digest
    return sha256(b"".join(parts))


def attr_leaf(key, attrs):
    parts = [b"\0packhorse.attrs.1\0", struct.pack("<I", len(key)), key, struct.pack("<H", len(attrs))]
    form = {STRING: lambda v: struct.pack("<I", len(v)) + v, INT: lambda v: struct.pack("<q", v), FLOAT: float_bits,
            BOOL: lambda v: bytes([v])}
    for name, (kind, value) in sorted(attrs.items()):
        parts += struct.pack("<H", len(name)), name.encode(), bytes([kind]), form[kind](value)
    return sha256(b"".join(parts))


def tree(leaves):
    """Root of the tree over leaves (RFC 6962, section 2.1)."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"")
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1" + tree(leaves[:left]) + tree(leaves[left:]))


def crc_table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


CRC_TABLE = tuple(crc_table())


def crc32c(data):
    """CRC-32C, by table. Python is slow at that, so of long data most is first cancelled with large integers: the polynomial
    divides x^6777 + x^484 + x^100 + 1 and its squares, so bits at the front may move 6293, 6677 and 6777 places (times 2^k) to the
    back. A reader in another language has no need of it."""
    bits, crc = 8 * len(data), 0xFFFFFFFF
    if bits > 6777:
        rest, crc = int.from_bytes(data, "little") ^ crc, 0
        for k in reversed(range(bits.bit_length() - 12)):
            while bits > 6777 << k:
                step = min(6293 << k, bits - (6777 << k))
                front = rest & (1 << step) - 1
                rest >>= step
                for places in (6293, 6677, 6777):
                    rest ^= front << (places << k) - step
                bits -= step
        data = (rest << -bits % 8).to_bytes((bits + 7) // 8, "little")      # zero bits in front change nothing
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# ---- cut rule (M 3)

def cut_ends(key, weight, spread):
    """Whether a segment of this weight, at least `min`, ends after this key."""
    return int.from_bytes(sha256(b"packhorse.cut.1\0" + key)[:8], "little") * spread < weight << 64


def cut(samples, rule):
    """The places in the list of (key, size) where segments begin."""
    least, spread, most = rule
    begins, held, count = [], 0, 0
    for i, (key, size) in enumerate(samples):
        weight = size + len(key) + 128
        if count and (held + weight > most or count == MAX_SAMPLES):
            held = count = 0
        if not count:
            begins.append(i)
        held, count = held + weight, count + 1
        if held >= least and cut_ends(key, weight, spread):
            held = count = 0
    return begins


def rule_of_size(size):
    return size // 2, size // 2, 2 * size


# ---- dataset.phm (M 4)

class Segment:
    def __init__(self, at, content, attrs, samples, size, first):
        self.at, self.content, self.attrs, self.first = at, content, attrs, first
        self.samples, self.size, self.lines = int(samples), int(size), []


class Manifest:
    def __init__(self, file):
        self.file, self.rule, self.detail, self.attrs, self.classes, self.segments = file, None, None, [], {}, []


def parse_manifest(file, data):
    need(len(data) <= MAX_MANIFEST, file, 0, "more than 1 GiB")
    need(data.endswith(b"\n"), file, len(data), "the last line does not end with LF")
    manifest, at = Manifest(file), 0
    for number, raw in enumerate(data[:-1].split(b"\n")):
        try:
            manifest_line(manifest, number, raw.decode("utf-8"), at)
        except ValueError as error:                     # also UnicodeDecodeError, and what from_text refuses
            raise Fault(file, at, error)
        at += len(raw) + 1
    need(manifest.segments, file, at, "no segment")
    for i, seg in enumerate(manifest.segments):
        need(i == 0 or manifest.segments[i - 1].first < seg.first, file, seg.at, "segments are not in key order")
        if manifest.detail == "samples":
            need(seg.samples == len(seg.lines), file, seg.at, f"{seg.samples} samples, but {len(seg.lines)} lines")
            need(seg.size == sum(line[1] for line in seg.lines), file, seg.at, "bytes are not those of the lines")
            need(seg.first == seg.lines[0][3], file, seg.at, "first key is not that of the first line")
            need(all(a[3] < b[3] for a, b in zip(seg.lines, seg.lines[1:])), file, seg.at, "samples are not in key order")
    return manifest


def manifest_line(manifest, number, line, at):
    def match(pattern, what):
        found = re.fullmatch(pattern, line)
        if not found:
            raise ValueError(f"not a line `{what}`")
        return found.groups()

    def numbers(*texts):
        if max(map(int, texts)) >= 1 << 64:
            raise ValueError("a number that needs more than 64 bits")

    def key_of(text):
        key = from_text(text)
        if key_fault(key):
            raise ValueError(key_fault(key))
        return key

    word = line.split(" ")[0]
    if number < 3:
        match(re.escape(("packhorse-manifest 1", "hash sha256", "order key")[number]), "fixed line")
    elif number == 3:
        rule = match(f"cut keyhash min=({NUM}) spread=({NUM}) max=({NUM})", "cut keyhash min= spread= max=")
        numbers(*rule)
        manifest.rule = tuple(map(int, rule))
        if manifest.rule[2] < 8_192 or manifest.rule != rule_of_size(manifest.rule[2] // 2):
            raise ValueError("the cut rule is not that of a size of 4,096 or more")
    elif number == 4:
        manifest.detail, = match("detail (segments|samples)", "detail segments or samples")
    elif number == 5:
        manifest.attrs = match("attrs((?: [^ ]+)*)", "attrs NAME...")[0].split(" ")[1:]
        if manifest.attrs != sorted(set(manifest.attrs)) or not all(map(good_name, manifest.attrs)):
            raise ValueError("names of attributes are wrong, or not in byte order")
    elif word == "class" and not manifest.segments:
        index, text = match(f"class ({NUM}) (.*)", "class INDEX NAME")
        name = from_text(text)
        if int(index) != len(manifest.classes) or name in manifest.classes:
            raise ValueError("class lines are not numbered 0, 1, 2, or a name stands twice")
        manifest.classes[name] = int(index)
    elif word == "seg":
        content, attrs, samples, size, first = match(f"seg ({HEX}) ({HEX}) ({NUM}) ({NUM}) (.*)", "seg ...")
        numbers(samples, size)
        if not 1 <= int(samples) <= MAX_SAMPLES or len(manifest.segments) == MAX_SEGMENTS:
            raise ValueError("too many samples or segments, or no sample")
        manifest.segments.append(Segment(at, content, attrs, samples, size, key_of(first)))
    elif word == "sample" and manifest.detail == "samples" and manifest.segments:
        leaf, size, attrs, key = match(f"sample ({HEX}) ({NUM}) ([^ ]+) (.*)", "sample LEAF BYTES ATTRS KEY")
        numbers(size)
        if not set(parse_attrs(attrs)) <= set(manifest.attrs):
            raise ValueError("an attribute that the line `attrs` does not name")
        manifest.segments[-1].lines.append((leaf, int(size), attrs, key_of(key)))
    else:
        match("[^ ]+(?: [^ ]+)*", "of words with single spaces")
        if word in ("packhorse-manifest", "hash", "order", "cut", "detail", "attrs", "sample") or manifest.classes or manifest.segments:
            raise ValueError(f"a line `{word}` does not belong here")
        if word == "need":
            raise ValueError("needs what this reader does not know")


def good_name(name):
    return re.fullmatch("[!-~]{1,255}", name) and not set("=,%") & set(name)


# ---- index/ab/<digest>.phi (M 5)

class Index:
    def __init__(self):
        self.keys, self.samples = [], []      # per sample: its fields, each (name, size, SHA-256)


def padded(length, unit=8):
    return (length + unit - 1) // unit * unit


def header(file, data, magic, known=0):
    """The first 16 bytes, which are alike in the three binary files. Returns the required feature bits."""
    need(len(data) >= 64, file, len(data), "too short for its header")
    need(data[:8] == magic, file, 0, "not the magic of this kind of file")
    version, zero, features = struct.unpack_from("<HHI", data, 8)
    need(version == 1, file, 8, "not format version 1")
    need(zero == 0, file, 10, "not zero")
    need(not features & ~known, file, 12, "required features that this reader does not know")
    return features


def parse_index(file, data):
    header(file, data, b"\x89PHI\r\n\x1a\n")
    n, m, k, total, c, b, zero = struct.unpack_from("<QQQQIIQ", data, 16)
    need(1 <= n <= MAX_SAMPLES, file, 16, "number of samples")
    need(n <= m < 1 << 32, file, 24, "number of fields")
    need(1 <= c <= 65_535, file, 48, "number of field names")
    need(zero == 0, file, 56, "not zero")
    fields_at, names_at = 64 + 16 * n, 64 + 16 * n + 48 * m
    keys_at = names_at + padded(b)
    need(len(data) == keys_at + padded(k), file, len(data), "length is not that which the header gives")
    need(not any(data[names_at + b:keys_at]), file, names_at + b, "padding is not zero")
    need(not any(data[keys_at + k:]), file, keys_at + k, "padding is not zero")

    names, at, end = [], names_at, names_at + b
    for _ in range(c):
        need(at + 2 <= end, file, at, "names pass their section")
        length, = struct.unpack_from("<H", data, at)
        need(at + 2 + length <= end, file, at, "names pass their section")
        names.append(bytes(data[at + 2:at + 2 + length]))
        need(len(names) < 2 or names[-2] < names[-1], file, at, "field names are not in byte order")
        at += 2 + length
    need(at == end, file, at, "bytes after the last field name")

    index, key_start, field_start, used, size_sum = Index(), 0, 0, set(), 0
    for i in range(n):
        at = 64 + 16 * i
        key_end, field_end = struct.unpack_from("<QQ", data, at)
        need(key_start < key_end <= k, file, at, "end of the key")
        need(field_start < field_end <= m, file, at + 8, "end of the fields")
        key = bytes(data[keys_at + key_start:keys_at + key_end])
        need(not key_fault(key), file, keys_at + key_start, key_fault(key))
        need(not index.keys or index.keys[-1] < key, file, keys_at + key_start, "keys are not in order")
        fields, last = [], -1
        for j in range(field_start, field_end):
            at = fields_at + 48 * j
            size, name, zero = struct.unpack_from("<QII", data, at)
            need(last < name < c, file, at + 8, "number of the field name")
            need(zero == 0, file, at + 12, "not zero")
            fields.append((names[name], size, bytes(data[at + 16:at + 48])))
            used.add(name)
            size_sum, last = size_sum + size, name
        index.keys.append(key)
        index.samples.append(fields)
        key_start, field_start = key_end, field_end
    need(key_start == k, file, 32, "bytes of all keys")
    need(field_start == m, file, 24, "number of fields is not that of the samples")
    need(size_sum == total, file, 40, "payload bytes are not the sum of the sizes")
    need(len(used) == c, file, names_at, "a field name that no field has")
    return index


def check_index(root, file):
    data = read(root, file)
    index = parse_index(file, data)
    content = tree([sample_leaf(key, fields) for key, fields in zip(index.keys, index.samples)])
    need(content.hex() == Path(file).stem, file, 0, "tree is not that of the file's name")
    return data, index


# ---- attrs/ab/<digest>.pha (M 6)

def parse_attributes(file, data, keys):
    """For each sample {name: (type, value)}."""
    header(file, data, b"\x89PHA\r\n\x1a\n")
    n, c, zero, digest = struct.unpack_from("<QII32s", data, 16)
    need(n == len(keys), file, 16, "number of samples is not that of the index")
    need(zero == 0, file, 28, "not zero")
    need(digest == sha256(b"".join(struct.pack("<I", len(key)) + key for key in keys)), file, 32, "digest of the keys")
    attrs, at, last = [{} for _ in keys], 64, ""
    for _ in range(c):
        need(at + 16 <= len(data), file, at, "column passes the end of the file")
        name_length, kind, zero, zeros, length = struct.unpack_from("<HBBIQ", data, at)
        need(kind in (STRING, INT, FLOAT, BOOL), file, at + 2, "type of the column")
        need(zero == zeros == 0, file, at + 3, "not zero")
        start = at + 16 + padded(name_length)
        end = start + padded(length)
        need(end <= len(data), file, at, "column passes the end of the file")
        name = str(data[at + 16:at + 16 + name_length], "latin-1")
        need(good_name(name) and last < name, file, at + 16, "name of the column, or not in byte order")
        need(not any(data[at + 16 + name_length:start]), file, at + 16 + name_length, "padding is not zero")
        need(not any(data[start + length:end]), file, start + length, "padding is not zero")
        values = column(file, start, memoryview(data)[start:start + length], kind, n)
        need(any(value is not None for value in values), file, at, "a column that is null throughout")
        for sample, value in zip(attrs, values):
            if value is not None:
                sample[name] = kind, value
        at, last = end, name
    need(at == len(data), file, at, "bytes after the last column")
    return attrs


def column(file, at, data, kind, n):
    """The values of one column, None for null. `at` is where `data` lies in the file."""
    if kind == BOOL:
        need(len(data) == n and not any(byte > 2 for byte in data), file, at, "data of a boolean column")
        return [(False, True, None)[byte] for byte in data]
    if kind in (INT, FLOAT):
        need(len(data) == 8 * n + (n + 7) // 8, file, at, "length of a number column")
        bits = int.from_bytes(data[8 * n:], "little")
        need(not bits >> n, file, at + len(data) - 1, "bits after the last sample")
        values = []
        for i, (value,) in enumerate(struct.iter_unpack("<q" if kind == INT else "<d", data[:8 * n])):
            there, stored = bits >> i & 1, data[8 * i:8 * i + 8]
            canonical = stored if kind == INT else value == value and float_bits(value)
            need(stored == (canonical if there else bytes(8)), file, at + 8 * i, "NaN, -0 or a null that is not 0")
            values.append(value if there else None)
        return values
    need(len(data) >= 8, file, at, "length of a string column")
    d, zero = struct.unpack_from("<II", data)
    need(zero == 0, file, at + 4, "not zero")
    texts_at = 8 + 4 * n + 4 * d
    need(texts_at <= len(data), file, at, "number of values passes the column")
    numbers, lengths = struct.unpack_from(f"<{n}I", data, 8), struct.unpack_from(f"<{d}I", data, 8 + 4 * n)
    need(texts_at + sum(lengths) == len(data), file, at, "lengths of the values are not that of the column")
    texts, start = [], texts_at
    for length in lengths:
        texts.append(bytes(data[start:start + length]))
        need(len(texts) < 2 or texts[-2] < texts[-1], file, at + start, "values are not in byte order")
        start += length
    need(max(numbers) <= d, file, at + 8, "number of a value")
    need(set(numbers) | {d} == set(range(d + 1)), file, at + 8, "a value that no sample has")
    return [texts[number] if number < d else None for number in numbers]


def check_attributes(root, file, keys):
    attrs = parse_attributes(file, read(root, file), keys)
    digest = tree([attr_leaf(key, values) for key, values in zip(keys, attrs)])
    need(digest.hex() == Path(file).stem, file, 0, "tree is not that of the file's name")
    return attrs


# ---- shard/ab/<digest>.phs (S)

def parse_shard(file, data, crc=crc32c):
    """Checks all but the payloads. Returns the extents (offset, stored, raw, CRC, codec) and the bytes of the index."""
    end = len(data) - 128
    need(end >= 64, file, len(data), "too short for header and footer")
    foot = struct.unpack_from("<6Q4I32sQHHIII8s", data, end)
    ext_at, count, idx_at, idx_len, meta_at, meta_len = foot[:6]
    ext_crc, idx_crc, meta_crc, head_crc, digest, length, version, zero, features, zero2, foot_crc, magic = foot[6:]
    need(magic == b"\x89PHE\r\n\x1a\n", file, end + 120, "not the magic of a footer")
    need(crc(data[end:end + 116]) in (foot_crc, None), file, end + 116, "CRC-32C of the footer")
    need(length == len(data), file, end + 96, "length of the file")
    need(version == 1, file, end + 104, "not format version 1")
    need(zero == 0 and zero2 == 0, file, end + 106, "not zero")
    need(header(file, data, b"\x89PHS\r\n\x1a\n", known=1) == features, file, end + 108, "feature bits are not those of the header")
    need(not any(data[16:64]), file, 16, "not zero")
    need(crc(data[:64]) in (head_crc, None), file, end + 60, "CRC-32C of the header")
    need(64 <= ext_at <= end and ext_at % 64 == 0 and count <= end // 32, file, end, "offset or number of the extents")
    need(idx_at == ext_at + 32 * count, file, end + 16, "index does not follow the extents")
    need(meta_at == idx_at + idx_len, file, end + 32, "metadata does not follow the index")
    need(meta_len <= 65_536 and padded(meta_at + meta_len) == end, file, end + 40, "footer does not follow the metadata")
    need(not any(data[meta_at + meta_len:end]), file, meta_at + meta_len, "padding is not zero")
    for at, size, stored, field in (ext_at, 32 * count, ext_crc, 48), (idx_at, idx_len, idx_crc, 52), (meta_at, meta_len, meta_crc, 56):
        need(crc(data[at:at + size]) in (stored, None), file, end + field, f"CRC-32C of the section at {at}")

    metadata, stem = bytes(data[meta_at:meta_at + meta_len]), Path(file).name[:-len(".phs")]
    need(bool(metadata) == bool(features & 1), file, meta_at, "metadata without compression, or the other way round")
    facts = [re.fullmatch(rb"([^ \n]+) ([^\n]+)", line) for line in metadata.split(b"\n")[:-1]]
    need(all(facts) and metadata[-1:] in (b"", b"\n"), file, meta_at, "metadata is not of lines `name value`")
    need([fact[1] for fact in facts] == sorted({fact[1] for fact in facts}), file, meta_at, "metadata is not sorted by name")
    need(stem == digest.hex() + ("." + sha256(metadata).hex()[:8] if metadata else ""), file, end + 64, "not the file's name")

    extents, at = [], 64
    for j in range(count):
        here = ext_at + 32 * j
        *extent, zeros = struct.unpack_from("<QQQIB3s", data, here)
        offset, stored, raw, _, codec = extent
        need(offset == at, file, here, f"record does not lie at {at}")
        need(offset + stored <= ext_at, file, here + 8, "record passes the extents")
        need(codec == 0 and stored == raw or codec == 1 and features and stored * 100 <= raw * 95, file, here + 8, "lengths or codec")
        need(zeros == bytes(3), file, here + 29, "not zero")
        at = padded(offset + stored, 64)
        need(not any(data[offset + stored:at]), file, offset + stored, "padding is not zero")
        extents.append(extent)
    need(at == ext_at, file, ext_at, "extents do not follow the payloads")
    return extents, bytes(data[idx_at:meta_at])


def payload(file, data, extent, size, digest, crc=crc32c):
    """The bytes of one field; None where they are compressed and this Python cannot decompress them."""
    offset, stored, raw, check, codec = extent
    need(raw == size, file, offset, "raw length is not the size in the index")
    record = data[offset:offset + stored]
    need(crc(record) in (check, None), file, offset, "CRC-32C of the record")
    if codec == 1:
        if not zstd:
            return None
        frame = zstd.ZstdDecompressor()
        try:
            record = frame.decompress(record, max_length=raw + 1)
        except zstd.ZstdError as error:
            raise Fault(file, offset, error)
        need(frame.eof and not frame.unused_data, file, offset, "not one zstd frame of the raw length")
    need(len(record) == raw and sha256(record) == digest, file, offset, "SHA-256 of the field")
    return record


def check_shard(root, file, index_bytes, index, crc):
    """Returns the number of compressed records that could not be looked into."""
    with Mapped(root, file) as data:
        extents, copy = parse_shard(file, data, crc)
        need(copy == index_bytes, file, extents[-1][0] if extents else 64, "the index inside is not the .phi file")
        fields = [field for sample in index.samples for field in sample]
        need(len(extents) == len(fields), file, len(data) - 120, "number of extents is not that of the fields")
        return [payload(file, data, e, size, digest, crc) for e, (_, size, digest) in zip(extents, fields)].count(None)


# ---- files of a pack; the lock (M 7)

def read(root, file):
    try:
        return (root / file).read_bytes()
    except OSError as error:
        raise Fault(file, 0, error.strerror)


class Mapped:
    def __init__(self, root, file):
        self.root, self.file = root, file

    def __enter__(self):
        try:
            with open(self.root / self.file, "rb") as handle:
                return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise Fault(self.file, 0, error)

    def __exit__(self, *_):
        pass


def index_file(digest):
    return f"index/{digest[:2]}/{digest}.phi"


def attrs_file(digest):
    return f"attrs/{digest[:2]}/{digest}.pha"


def parse_lock(file, data):
    """{file: SHA-256}, in the order of the lock."""
    lock, at, last = {}, 0, ""
    need(data.endswith(b"\n"), file, len(data), "the last line does not end with LF")
    for line in data[:-1].split(b"\n"):
        found = re.fullmatch(rf"({HEX})  (shard/([0-9a-f]{{2}})/\3[0-9a-f]{{62}}(?:\.[0-9a-f]{{8}})?\.phs)", line.decode("latin-1"))
        need(found, file, at, "not a line `<SHA-256>  <path of a shard>`")
        need(last < found[2], file, at, "not sorted by path")
        lock[found[2]], last, at = found[1], found[2], at + len(line) + 1
    return lock


def shard_of(lock, digest):
    """The file in force for a segment: the one that the lock names."""
    files = [file for file in lock if file.split("/")[2].startswith(digest)]
    need(len(files) == 1, "shard.sha256", 0, f"{len(files)} files of segment {digest}, not one")
    return files[0]


# ---- commands

def check_manifest(manifest, segments):
    """The manifest against the index and attributes of its segments, and the rules about all keys together."""
    samples = []
    for seg, (index, attrs) in zip(manifest.segments, segments):
        def line(ok, text):
            need(ok, manifest.file, seg.at, text)

        sizes = [sum(field[1] for field in fields) for fields in index.samples]
        line(seg.samples == len(index.keys) and seg.size == sum(sizes), "samples or bytes are not those of the index")
        line(seg.first == index.keys[0], "first key is not that of the index")
        line(not samples or samples[-1][0] < seg.first, "a segment begins before the end of the one above")
        line({name for values in attrs for name in values} <= set(manifest.attrs), "an attribute that `attrs` does not name")
        for kind, value in (values["class"] for values in attrs if "class" in values):
            line(kind != STRING or value in manifest.classes, f"class `{to_text(value)}` has no line")
        if manifest.detail == "samples":
            line(seg.lines == [(sample_leaf(key, fields).hex(), size, attrs_text(values), key) for key, fields, size, values
                               in zip(index.keys, index.samples, sizes, attrs)], "sample lines are not those of index and attributes")
        samples += zip(index.keys, sizes)
    keys = {key for key, _ in samples}
    for key in keys:
        for i, byte in enumerate(key):
            need(byte != 0x2F or key[:i] not in keys, manifest.file, 0, f"`{to_text(key[:i])}` is a key and a folder")
    firsts = [samples[i][0] for i in cut(samples, manifest.rule)]
    need(firsts == [seg.first for seg in manifest.segments], manifest.file, 0, "the cut rule gives other segments")


def verify(root, crc, version):
    """All faults found, the current manifest, and a note."""
    faults, known, unread = [], set(), 0

    def attempt(check, *args):
        try:
            return check(*args)
        except Fault as fault:
            faults.append(fault)

    def whole_manifest(file, digest):
        data = read(root, file)
        need(digest in (None, hashlib.sha256(data).hexdigest()), file, 0, "version id is another")
        return parse_manifest(file, data)

    files = sorted(p.relative_to(root).as_posix() for top in ("index", "attrs", "shard") for p in (root / top).rglob("*") if not p.is_dir())
    manifest = attempt(whole_manifest, "dataset.phm", version)
    lock = attempt(lambda: parse_lock("shard.sha256", read(root, "shard.sha256")))
    if not manifest or lock is None:
        return faults, None, 0
    history = [attempt(whole_manifest, p.relative_to(root).as_posix(), p.stem) for p in sorted((root / "history").glob("*.phm"))]
    cache = {}
    for each in [manifest] + [m for m in history if m]:
        segments = []
        for seg in each.segments:
            index_name, attrs_name = index_file(seg.content), attrs_file(seg.attrs)
            shards = [f for f in files if re.fullmatch(rf"shard/../{seg.content}(\.[0-9a-f]{{8}})?\.phs", f)]
            known.update(shards)
            for name in (index_name, attrs_name):       # a file of an older version may be gone
                if name not in cache and (each is manifest or (root / name).exists()):
                    if name == index_name:
                        cache[name] = attempt(check_index, root, name)
                        if cache[name]:
                            unread += sum(attempt(check_shard, root, f, *cache[name], crc) or 0 for f in shards)
                    elif cache.get(index_name):
                        cache[name] = attempt(check_attributes, root, name, cache[index_name][1].keys)
            known.update((index_name, attrs_name))
            segments.append((cache[index_name][1] if cache.get(index_name) else None, cache.get(attrs_name)))
            if each is manifest:
                attempt(shard_of, lock, seg.content)
        if all(index and attrs is not None for index, attrs in segments):
            attempt(check_manifest, each, segments)
    current = {seg.content for seg in manifest.segments}
    for file, digest in lock.items():
        attempt(check_locked, root, file, digest, current)
    for file in files:
        attempt(need, file in known, file, 0, "unknown file")
    return faults, manifest, unread


def check_locked(root, file, digest, current):
    need(file.split("/")[2][:64] in current, "shard.sha256", 0, f"{file} is of no segment of this version")
    with Mapped(root, file) as data:
        need(hashlib.sha256(data).hexdigest() == digest, file, 0, "SHA-256 is not that of the lock")


def cat(root, key):
    manifest = parse_manifest("dataset.phm", read(root, "dataset.phm"))
    i = bisect.bisect([seg.first for seg in manifest.segments], key) - 1
    seg = manifest.segments[max(i, 0)]
    index = parse_index(index_file(seg.content), read(root, index_file(seg.content)))
    if key not in index.keys:
        sys.exit(f"no key {to_text(key)}")
    fields = [(i, field) for i, sample in enumerate(index.samples) for field in sample]
    file = shard_of(parse_lock("shard.sha256", read(root, "shard.sha256")), seg.content)
    with Mapped(root, file) as data:
        extents, _ = parse_shard(file, data)
        for extent, (i, (name, size, digest)) in zip(extents, fields):
            if index.keys[i] == key and name == b"data":
                found = payload(file, data, extent, size, digest)
                sys.stdout.buffer.write(found if found is not None else sys.exit("this Python has no zstd"))


def main():
    parser = argparse.ArgumentParser(description="Reads packs in format version 1.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("verify", "list", "cat", "vectors"):
        command = commands.add_parser(name)
        if name == "vectors":
            command.add_argument("file", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent / "fixtures/v1/vectors.json")
        else:
            command.add_argument("pack", type=Path)
        if name == "cat":
            command.add_argument("key", help="in text form")
        if name == "verify":
            command.add_argument("--no-crc", action="store_true", help="skip CRC-32C; each SHA-256 is checked all the same")
            command.add_argument("--id", help="version id that the manifest must have")
    args = parser.parse_args()
    if args.command == "vectors":
        import format_vectors
        args.file.write_text(format_vectors.text(), encoding="ascii")
    elif args.command == "list":
        for seg in parse_manifest("dataset.phm", read(args.pack, "dataset.phm")).segments:
            for key in parse_index(index_file(seg.content), read(args.pack, index_file(seg.content))).keys:
                sys.stdout.buffer.write(to_text(key).encode() + b"\n")
    elif args.command == "cat":
        cat(args.pack, from_text(args.key))
    else:
        faults, manifest, unread = verify(args.pack, (lambda data: None) if args.no_crc else crc32c, args.id)
        for fault in faults[:20]:
            print(fault)
        if faults:
            sys.exit(1)
        print(f"ok: {sum(s.samples for s in manifest.segments)} samples, {sum(s.size for s in manifest.segments)} bytes")
        if unread:
            print(f"not decompressed, this Python has no zstd: {unread} records")


if __name__ == "__main__":
    try:
        main()
    except (Fault, ValueError) as problem:
        sys.exit(str(problem))
