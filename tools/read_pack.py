#!/usr/bin/env python3
"""An independent reader of packhorse packs: plain Python 3.9, written from docs/format/manifest.md and docs/format/shard.md alone.

    read_pack.py verify PACK       check all that the two pages say
    read_pack.py list PACK         keys in text form
    read_pack.py cat PACK KEY      bytes of a sample, by its key in text form

Sections of the pages are named as (M 4), section 4 of manifest.md, or (S Footer), that of shard.md.
"""
import bisect
import hashlib
import mmap
import re
import struct
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

try:
    from compression import zstd            # Python 3.14 and later
except ImportError:
    try:
        from backports import zstd
    except ImportError:
        zstd = None

MAX_SAMPLES, MAX_SEGMENTS, MAX_MANIFEST = 262_144, 8_192, 1 << 30
STRING, INT, FLOAT, BOOL = 1, 2, 3, 4
HEX, NUM = "([0-9a-f]{64})", "(0|[1-9][0-9]*)"
FIXED = ("packhorse-manifest 1", "hash sha256", "order key")


class Fault(Exception):
    def __init__(self, file, offset, text):
        super().__init__(f"{file}: at {offset}: {text}")


def need(ok, file, offset, text):
    if not ok:
        raise Fault(file, offset, text)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u16(x):
    return struct.pack("<H", x)


def u32(x):
    return struct.pack("<I", x)


def padded(length, unit=8):
    return (length + unit - 1) // unit * unit


# ---- keys, text forms (M 1), and the attributes of `sample` lines (M 4)

def key_fault(key):
    """Why these bytes are no key, or None."""
    if not 1 <= len(key) <= 65_535:
        return "a key has 1 to 65,535 bytes"
    if b"\0" in key or any(part in (b"", b".", b"..") for part in key.split(b"/")):
        return "a key has no zero byte and no part that is empty, `.` or `..`"


def to_text(data, more=""):
    """Text form of bytes. Python decodes a byte that is not UTF-8 to one of U+DC80 to U+DCFF here."""
    text = data.decode("utf-8", "surrogateescape")
    steers = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    escaped = lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode("utf-8", "surrogateescape"))
    return re.sub(f"[%{steers}\udc80-\udcff{more}]", escaped, text)


def from_text(text, encode=to_text):
    """The bytes of a text form. There is one form only, so encoding must give the text back."""
    data = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    if encode(data) != text:
        raise ValueError(f"`{text}` is not the text form of any bytes")
    return data


def value_text(data):
    text = to_text(data, " ,=:")
    return "%2D" + text[1:] if text.startswith("-") else text


def float_text(value):
    """Shortest decimal that reads back the same. Read here as digits without exponent and without `.0`, or `inf`."""
    value = value or 0.0                                    # -0 is 0
    text = repr(value) if abs(value) == float("inf") else format(Decimal(repr(value)), "f")
    return text[:-2] if text.endswith(".0") else text


def attrs_text(attrs):
    """The word ATTRS. `attrs` is {name: (type, value)}, where a string's value is bytes."""
    form = {STRING: value_text, INT: "i:{}".format, FLOAT: lambda v: f"f:{float_text(v)}", BOOL: ("b:false", "b:true").__getitem__}
    return ",".join(f"{name}={form[kind](value)}" for name, (kind, value) in sorted(attrs.items())) or "-"


def parse_attrs(word):
    attrs = {}
    for pair in word.split(",") if word != "-" else ():
        name, _, text = pair.partition("=")
        kinds = {"i:": (INT, int), "f:": (FLOAT, float), "b:": (BOOL, "true".__eq__)}
        kind, read_value = kinds.get(text[:2], (STRING, None))
        attrs[name] = kind, read_value(text[2:]) if read_value else from_text(text, value_text)
        if kind == INT and not -1 << 63 <= attrs[name][1] < 1 << 63 or kind == FLOAT and not float_bits(attrs[name][1]):
            raise ValueError(f"`{text}` is out of range")
    if attrs_text(attrs) != word or not all(map(good_name, attrs)):
        raise ValueError(f"`{word}` is not the one form of these attributes")
    return attrs


# ---- digests (M 2)

def sample_leaf(key, fields):
    """`fields`: (name, size, SHA-256) in byte order of names."""
    parts = [u16(len(name)) + name + struct.pack("<Q", size) + digest for name, size, digest in fields]
    return sha256(b"\0packhorse.sample.1\0", u32(len(key)), key, u16(len(fields)), *parts)


def float_bits(value):
    """-0 becomes 0. None for NaN, which is refused."""
    return struct.pack("<d", value or 0.0) if value == value else None


def attr_leaf(key, attrs):
    form = {STRING: lambda v: u32(len(v)) + v, INT: lambda v: struct.pack("<q", v), FLOAT: float_bits, BOOL: lambda v: bytes([v])}
    parts = [u16(len(name)) + name.encode() + bytes([kind]) + form[kind](value) for name, (kind, value) in sorted(attrs.items())]
    return sha256(b"\0packhorse.attrs.1\0", u32(len(key)), key, u16(len(attrs)), *parts)


def tree(leaves):
    """Root of the tree over leaves (RFC 6962, section 2.1)."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256()
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1", tree(leaves[:left]), tree(leaves[left:]))


def crc_table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


CRC_TABLE = tuple(crc_table())


def crc32c(data):
    """CRC-32C by table. Python is slow at that, so of longer data most is first folded away in large integers: the polynomial divides
    x^6777 + x^484 + x^100 + 1 and its squares, so bits in front may be added 6293, 6677 and 6777 places (times 2^k) further back
    instead. A reader in another language has no need of this."""
    bits, crc = 8 * len(data), 0xFFFFFFFF
    if bits > 6777:
        rest, crc = int.from_bytes(data, "little") ^ crc, 0
        for k in reversed(range(bits.bit_length() - 12)):
            while bits > 6777 << k:
                step = min(6293 << k, bits - (6777 << k))
                front, rest = rest & (1 << step) - 1, rest >> step
                for places in (6293, 6677, 6777):
                    rest ^= front << (places << k) - step
                bits -= step
        data = (rest << -bits % 8).to_bytes((bits + 7) // 8, "little")      # zero bits in front change nothing
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# ---- cut rule (M 3)

def rule_of_size(size):
    return size // 2, size // 2, 2 * size


def cut_hash(key):
    return int.from_bytes(sha256(b"packhorse.cut.1\0", key)[:8], "little")


def cut_ends(key, weight, spread):
    """Whether a segment that weighs at least `min` ends after this sample."""
    return cut_hash(key) * spread < weight << 64


def cut(samples, rule):
    """The places in the list of (key, size) where segments begin."""
    least, spread, most = rule
    begins, held, count = [], 0, 0
    for i, (key, size) in enumerate(samples):
        weight = size + len(key) + 128
        if count and held + weight > most or count == MAX_SAMPLES:
            held = count = 0
        if not count:
            begins.append(i)
        held, count = held + weight, count + 1
        if held >= least and cut_ends(key, weight, spread):
            held = count = 0
    return begins


# ---- dataset.phm (M 4)

def parse_manifest(file, data):
    need(len(data) <= MAX_MANIFEST, file, 0, "more than 1 GiB")
    need(data.endswith(b"\n"), file, len(data), "the last line does not end with LF")
    manifest, at = SimpleNamespace(file=file, rule=None, detail="", attrs=[], classes=[], segments=[]), 0
    for number, line in enumerate(data[:-1].split(b"\n")):
        try:
            manifest_line(manifest, number, line.decode(), at)
        except ValueError as error:                         # UnicodeDecodeError and what int() and from_text() refuse, too
            raise Fault(file, at, error) from None
        at += len(line) + 1
    need(manifest.segments, file, at, "no segment")
    manifest.classes = set(manifest.classes)
    for before, seg in zip([None] + manifest.segments, manifest.segments):
        need(not before or before.first < seg.first, file, seg.at, "segments are not in key order")
        if manifest.detail == "samples":
            keys = [key for _, _, _, key in seg.lines]
            size = sum(line[1] for line in seg.lines)
            need(len(keys) == seg.samples and size == seg.bytes, file, seg.at, "samples or bytes are not those of the lines")
            need(keys[0] == seg.first, file, seg.at, "first key is not that of the first line")
            need(keys == sorted(set(keys)), file, seg.at, "samples are not in key order")
    return manifest


def manifest_line(manifest, number, line, at):
    def check(ok, text="not the line that belongs here"):
        if not ok:
            raise ValueError(text)
        return ok

    def match(pattern):
        return check(re.fullmatch(pattern, line)).groups()

    def integer(text):
        check(int(text) < 1 << 64, "a number that needs more than 64 bits")
        return int(text)

    def key_of(text):
        key = from_text(text)
        check(not key_fault(key), key_fault(key))
        return key

    word = line.split(" ")[0]
    if number < 3:
        check(line == FIXED[number])
    elif number == 3:
        manifest.rule = tuple(map(integer, match(f"cut keyhash min={NUM} spread={NUM} max={NUM}")))
        size = manifest.rule[2] // 2
        check(size >= 4096 and manifest.rule == rule_of_size(size), "not the numbers of a size of 4,096 or more")
    elif number == 4:
        manifest.detail, = match("detail (segments|samples)")
    elif number == 5:
        manifest.attrs = match("attrs((?: [^ ]+)*)")[0].split(" ")[1:]
        check(all(map(good_name, manifest.attrs)), "name of an attribute")
        check(manifest.attrs == sorted(set(manifest.attrs)), "names are not in byte order")
    elif word == "class" and not manifest.segments:
        index, text = match(f"class {NUM} (.*)")
        check(int(index) == len(manifest.classes), "classes are not numbered 0, 1, 2 ...")
        manifest.classes.append(from_text(text))
        check(len(set(manifest.classes)) == len(manifest.classes), "two classes of one name")
    elif word == "seg":
        content, attrs, samples, size, first = match(f"seg {HEX} {HEX} {NUM} {NUM} (.*)")
        check(1 <= int(samples) <= MAX_SAMPLES, "number of samples")
        check(len(manifest.segments) < MAX_SEGMENTS, "more than 8,192 segments")
        manifest.segments.append(SimpleNamespace(at=at, content=content, attrs=attrs, samples=int(samples), bytes=integer(size),
                                                 first=key_of(first), lines=[]))
    elif word == "sample" and manifest.detail == "samples" and manifest.segments:
        leaf, size, attrs, key = match(f"sample {HEX} {NUM} ([^ ]+) (.*)")
        check(set(parse_attrs(attrs)) <= set(manifest.attrs), "an attribute that `attrs` does not name")
        manifest.segments[-1].lines.append((leaf, integer(size), attrs, key_of(key)))
    else:
        match("[^ ]+(?: [^ ]+)*")
        known = [fixed.split(" ")[0] for fixed in FIXED] + ["cut", "detail", "attrs", "sample", "class"]
        check(word not in known and not manifest.classes and not manifest.segments, f"a line `{word}` does not belong here")
        check(word != "need", f"`{line}`: this reader knows no such thing")


def good_name(name):
    return re.fullmatch("[!-~]{1,255}", name) and not set("=,%") & set(name)


# ---- index/ab/<digest>.phi (M 5)

def check_header(file, data, magic, known=0):
    """The first 16 bytes, which are alike in the three kinds of binary files. Returns the required feature bits."""
    need(len(data) >= 64, file, len(data), "too short for its header")
    need(data[:8] == magic, file, 0, "not the magic of this kind of file")
    version, zero, features = struct.unpack_from("<HHI", data, 8)
    need(version == 1 and zero == 0, file, 8, "not format version 1")
    need(not features & ~known, file, 12, "requires features that this reader does not know")
    return features


def zeros(file, data, start, end):
    need(not any(data[start:end]), file, start, "not zero")


def parse_index(file, data):
    """(keys, samples): each sample is a list of its fields (name, size, SHA-256)."""
    check_header(file, data, b"\x89PHI\r\n\x1a\n")
    n, m, k, total, c, b, zero = struct.unpack_from("<QQQQIIQ", data, 16)
    need(1 <= n <= MAX_SAMPLES, file, 16, "number of samples")
    need(n <= m < 1 << 32, file, 24, "number of fields")
    need(1 <= c <= 65_535, file, 48, "number of field names")
    need(zero == 0, file, 56, "not zero")
    fields_at, names_at = 64 + 16 * n, 64 + 16 * n + 48 * m
    keys_at = names_at + padded(b)
    need(len(data) == keys_at + padded(k), file, len(data), "length is not that which the header gives")
    zeros(file, data, names_at + b, keys_at)
    zeros(file, data, keys_at + k, len(data))

    names, at, end = [], names_at, names_at + b
    for _ in range(c):
        length = int.from_bytes(data[at:at + 2], "little")
        need(at + 2 + length <= end, file, at, "names pass their section")
        names.append(data[at + 2:at + 2 + length])
        need(len(names) < 2 or names[-2] < names[-1], file, at, "field names are not in byte order")
        at += 2 + length
    need(at == end, file, at, "bytes after the last field name")

    keys, samples, used, size_sum, key_start, field_start = [], [], set(), 0, 0, 0
    for i in range(n):
        key_end, field_end = struct.unpack_from("<QQ", data, 64 + 16 * i)
        need(key_start < key_end <= k, file, 64 + 16 * i, "end of the key")
        need(field_start < field_end <= m, file, 72 + 16 * i, "end of the fields")
        key, fields, last = data[keys_at + key_start:keys_at + key_end], [], -1
        need(not key_fault(key), file, keys_at + key_start, key_fault(key))
        need(not keys or keys[-1] < key, file, keys_at + key_start, "keys are not in order")
        for at in range(fields_at + 48 * field_start, fields_at + 48 * field_end, 48):
            size, name, zero = struct.unpack_from("<QII", data, at)
            need(last < name < c and zero == 0, file, at + 8, "number of the field name")
            fields.append((names[name], size, data[at + 16:at + 48]))
            used.add(name)
            size_sum, last = size_sum + size, name
        keys.append(key)
        samples.append(fields)
        key_start, field_start = key_end, field_end
    need(key_start == k, file, 32, "bytes of all keys")
    need(field_start == m, file, 24, "number of fields is not that of the samples")
    need(size_sum == total, file, 40, "payload bytes are not the sum of the sizes")
    need(len(used) == c, file, names_at, "a field name that no field has")
    return keys, samples


# ---- attrs/ab/<digest>.pha (M 6)

def parse_attributes(file, data, keys):
    """For each sample {name: (type, value)}."""
    check_header(file, data, b"\x89PHA\r\n\x1a\n")
    n, c, zero, digest = struct.unpack_from("<QII32s", data, 16)
    need(n == len(keys), file, 16, "number of samples is not that of the index")
    need(zero == 0, file, 28, "not zero")
    need(digest == sha256(*(u32(len(key)) + key for key in keys)), file, 32, "digest of the keys")
    attrs, at, last = [{} for _ in keys], 64, ""
    for _ in range(c):
        need(at + 16 <= len(data), file, at, "column passes the end of the file")
        name_length, kind, zero, zero2, length = struct.unpack_from("<HBBIQ", data, at)
        name_end, start = at + 16 + name_length, at + 16 + padded(name_length)
        end = start + padded(length)
        need(end <= len(data), file, at, "column passes the end of the file")
        name = str(data[at + 16:name_end], "latin-1")
        need(good_name(name) and last < name, file, at + 16, "name of the column, or not in byte order")
        need(kind in (STRING, INT, FLOAT, BOOL) and zero == zero2 == 0, file, at + 2, "type of the column")
        zeros(file, data, name_end, start)
        zeros(file, data, start + length, end)
        values = parse_column(file, start, data[start:start + length], kind, n)
        need(any(value is not None for value in values), file, at, "a column that is null throughout")
        for sample, value in zip(attrs, values):
            if value is not None:
                sample[name] = kind, value
        at, last = end, name
    need(at == len(data), file, at, "bytes after the last column")
    return attrs


def parse_column(file, at, data, kind, n):
    """The values of one column, None for null. `at` is where `data` lies in the file."""
    if kind == BOOL:
        need(len(data) == n and not any(byte > 2 for byte in data), file, at, "data of a boolean column")
        return [(False, True, None)[byte] for byte in data]
    if kind in (INT, FLOAT):
        need(len(data) == 8 * n + (n + 7) // 8, file, at, "length of a number column")
        there = int.from_bytes(data[8 * n:], "little")
        need(not there >> n, file, at + len(data) - 1, "bits after the last sample")
        values = [value for value, in struct.iter_unpack("<q" if kind == INT else "<d", data[:8 * n])]
        for i, value in enumerate(values):
            stored, canonical = data[8 * i:8 * i + 8], struct.pack("<q", value) if kind == INT else float_bits(value)
            need(stored == (canonical if there >> i & 1 else bytes(8)), file, at + 8 * i, "NaN, -0, or a null that is not 0")
        return [value if there >> i & 1 else None for i, value in enumerate(values)]
    need(len(data) >= 8 + 4 * n, file, at, "length of a string column")
    d, zero, *numbers = struct.unpack_from(f"<II{n}I", data)
    need(zero == 0, file, at + 4, "not zero")
    need(8 + 4 * n + 4 * d <= len(data), file, at, "number of values")
    texts, start = [], 8 + 4 * n + 4 * d
    for length in struct.unpack_from(f"<{d}I", data, 8 + 4 * n):
        texts.append(data[start:start + length])
        need(len(texts) < 2 or texts[-2] < texts[-1], file, at + start, "values are not in byte order")
        start += length
    need(start == len(data), file, at, "lengths of the values are not that of the column")
    need({*numbers, d} == {*range(d + 1)}, file, at + 8, "number of a value, or a value that no sample has")
    return [texts[number] if number < d else None for number in numbers]


# ---- shard/ab/<digest>.phs (S)

def parse_shard(file, data):
    """Checks all but the payloads. Returns the extents (offset, stored, raw, CRC, codec) and the bytes of the index."""
    end = len(data) - 128
    need(end >= 64, file, len(data), "too short for header and footer")
    (ext_at, count, idx_at, idx_len, meta_at, meta_len, ext_crc, idx_crc, meta_crc, head_crc, digest, length, version, zero,
     features, zero2, foot_crc, magic) = struct.unpack_from("<6Q4I32sQHHIII8s", data, end)
    need(magic == b"\x89PHE\r\n\x1a\n", file, end + 120, "not the magic of a footer")
    need(crc32c(data[end:end + 116]) == foot_crc, file, end + 116, "CRC-32C of the footer")
    need(length == len(data), file, end + 96, "length of the file")
    need(version == 1 and zero == zero2 == 0, file, end + 104, "not format version 1")
    in_header = check_header(file, data, b"\x89PHS\r\n\x1a\n", known=1)
    need(in_header == features, file, end + 108, "feature bits are not those of the header")
    zeros(file, data, 16, 64)
    need(crc32c(data[:64]) == head_crc, file, end + 60, "CRC-32C of the header")
    need(64 <= ext_at <= idx_at == ext_at + 32 * count and ext_at % 64 == 0, file, end, "offset or number of the extents")
    need(meta_at == idx_at + idx_len, file, end + 32, "metadata does not follow the index")
    need(meta_len <= 65_536 and padded(meta_at + meta_len) == end, file, end + 40, "footer does not follow the metadata")
    zeros(file, data, meta_at + meta_len, end)
    sections = (ext_at, idx_at, ext_crc, 48), (idx_at, meta_at, idx_crc, 52), (meta_at, meta_at + meta_len, meta_crc, 56)
    for start, stop, crc, field in sections:
        need(crc32c(data[start:stop]) == crc, file, end + field, f"CRC-32C of the section at {start}")

    metadata = data[meta_at:meta_at + meta_len]
    facts = re.findall(rb"([^ \n]+) [^\n]+\n", metadata)
    need(re.fullmatch(rb"([^ \n]+ [^\n]+\n)*", metadata), file, meta_at, "metadata is not of lines `name value`")
    need(facts == sorted(set(facts)), file, meta_at, "metadata is not sorted by name")
    need(bool(metadata) == bool(features), file, meta_at, "metadata without compression, or the other way round")
    name = digest.hex() + (f".{sha256(metadata).hex()[:8]}" if metadata else "") + ".phs"
    need(Path(file).name == name, file, end + 64, f"the file's name should be {name}")

    extents, at = [], 64
    for here in range(ext_at, idx_at, 32):
        *extent, zero = struct.unpack_from("<QQQIB3s", data, here)
        offset, stored, raw, _, codec = extent
        need(offset == at and offset + stored <= ext_at, file, here, f"record does not lie at {at}, or passes the extents")
        lengths_ok = stored == raw if codec == 0 else codec == 1 and features and stored * 100 <= raw * 95
        need(lengths_ok, file, here + 8, "lengths or codec")
        need(zero == bytes(3), file, here + 29, "not zero")
        at = padded(offset + stored, 64)
        zeros(file, data, offset + stored, at)
        extents.append(extent)
    need(at == ext_at, file, end, "extents do not follow the payloads")
    return extents, data[idx_at:meta_at]


def payload(file, data, extent, size, digest):
    """The bytes of one field; None where they are compressed and this Python cannot decompress them."""
    offset, stored, raw, crc, codec = extent
    record = data[offset:offset + stored]
    need(raw == size, file, offset, "raw length is not the size in the index")
    need(crc32c(record) == crc, file, offset, "CRC-32C of the record")
    if codec == 1:
        if not zstd:
            return None
        frame = zstd.ZstdDecompressor()
        try:
            record = frame.decompress(record, max_length=raw + 1)
        except zstd.ZstdError as error:
            raise Fault(file, offset, error) from None
        need(frame.eof and not frame.unused_data, file, offset, "not one zstd frame of the raw length")
    need(len(record) == raw and sha256(record) == digest, file, offset, "SHA-256 of the field")
    return record


# ---- files of a pack, the lock (M 7)

def read(root, file):
    try:
        return (root / file).read_bytes()
    except OSError as error:
        raise Fault(file, 0, error.strerror) from None


def mapped(root, file):
    try:
        with open(root / file, "rb") as handle:
            return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:                  # ValueError: an empty file
        raise Fault(file, 0, error) from None


def index_file(digest):
    return f"index/{digest[:2]}/{digest}.phi"


def attrs_file(digest):
    return f"attrs/{digest[:2]}/{digest}.pha"


def segment_of(file):
    """The content digest in the name of a shard file, or None."""
    found = re.fullmatch(r"shard/([0-9a-f]{2})/(\1[0-9a-f]{62})(\.[0-9a-f]{8})?\.phs", file)
    return found and found[2]


def parse_lock(file, data):
    """{file: SHA-256}, in the order of the lock."""
    lock, at, last = {}, 0, ""
    need(data.endswith(b"\n"), file, len(data), "the last line does not end with LF")
    for line in data[:-1].split(b"\n"):
        found = re.fullmatch(f"{HEX}  (.*)", line.decode("latin-1"))
        need(found and segment_of(found[2]), file, at, "not a line `<SHA-256>  <path of a shard>`")
        need(last < found[2], file, at, "not sorted by path")
        lock[found[2]], last, at = found[1], found[2], at + len(line) + 1
    return lock


def shard_in_force(lock, digest):
    """The shard file of a segment, compressed or not: the one that the lock names."""
    files = [file for file in lock if file[len("shard/ab/"):].startswith(digest)]
    need(len(files) == 1, "shard.sha256", 0, f"{len(files)} files of segment {digest}, not one")
    return files[0]


# ---- the commands

def check_index(root, file, digest):
    data = read(root, file)
    keys, samples = parse_index(file, data)
    need(tree([sample_leaf(*pair) for pair in zip(keys, samples)]).hex() == digest, file, 0, "its tree has another digest")
    return SimpleNamespace(data=data, keys=keys, samples=samples, sizes=[sum(field[1] for field in fields) for fields in samples])


def check_attributes(root, file, digest, keys):
    attrs = parse_attributes(file, read(root, file), keys)
    need(tree([attr_leaf(*pair) for pair in zip(keys, attrs)]).hex() == digest, file, 0, "its tree has another digest")
    return attrs


def check_shard(root, file, index):
    """Returns the number of compressed records that could not be looked into, and the SHA-256 of the file."""
    data = mapped(root, file)
    extents, copy = parse_shard(file, data)
    need(copy == index.data, file, 0, "the index inside is not the .phi file")
    fields = [field for sample in index.samples for field in sample]
    need(len(extents) == len(fields), file, len(data) - 120, "number of extents is not that of the fields")
    unread = [payload(file, data, extent, *field[1:]) is None for extent, field in zip(extents, fields)].count(True)
    return unread, hashlib.sha256(data).hexdigest()


def check_manifest(manifest, segments):
    """The manifest against indexes and attributes, and the rules about all keys together."""
    samples, names, paths = [], set(), []
    for seg, (index, attrs) in zip(manifest.segments, segments):
        def line(ok, text):
            need(ok, manifest.file, seg.at, text)

        line(seg.samples == len(index.keys) and seg.bytes == sum(index.sizes), "samples or bytes are not those of the index")
        line(seg.first == index.keys[0], "first key is not that of the index")
        line(not samples or samples[-1][0] < seg.first, "a segment begins before the one above ends")
        names |= {name for values in attrs for name in values}
        line({values["class"][1] for values in attrs if "class" in values} <= manifest.classes, "a class without a `class` line")
        if manifest.detail == "samples":
            leaves = map(sample_leaf, index.keys, index.samples)
            line(seg.lines == [(leaf.hex(), size, attrs_text(values), key) for leaf, size, values, key in
                               zip(leaves, index.sizes, attrs, index.keys)], "`sample` lines are not those of index and attributes")
        samples += zip(index.keys, index.sizes)
        for key, fields in zip(index.keys, index.samples):
            named = [field[0] for field in fields]
            paths += [key] if named == [b"data"] else [key + b"." + name for name in named]
    need(manifest.attrs == sorted(names), manifest.file, 0, f"`attrs` does not name what samples have: {' '.join(sorted(names))}")
    files = set(paths)
    need(len(files) == len(paths), manifest.file, 0, "two samples have one path")
    for path in files:
        for slash in re.finditer(b"/", path):
            need(path[:slash.start()] not in files, manifest.file, 0, f"a path is a folder of `{to_text(path)}`")
    begins = [samples[i][0] for i in cut(samples, manifest.rule)]
    need(begins == [seg.first for seg in manifest.segments], manifest.file, 0, "the cut rule gives other segments")


def verify(root):
    """All faults; the manifest; how many records could not be decompressed."""
    faults, known, shards, hashes, done = [], set(), {}, {}, {}

    def attempt(check, *args):
        try:
            return check(*args)
        except Fault as fault:
            faults.append(fault)

    def once(name, check, *args):
        if name not in done:
            done[name] = attempt(check, root, name, *args)
        return done[name]

    manifest = attempt(lambda: parse_manifest("dataset.phm", read(root, "dataset.phm")))
    lock = attempt(lambda: parse_lock("shard.sha256", read(root, "shard.sha256")))
    if not manifest or lock is None:
        return faults, None, 0
    versions = [manifest]
    for path in sorted((root / "history").glob("*.phm")):
        name, data = f"history/{path.name}", path.read_bytes()
        attempt(need, hashlib.sha256(data).hexdigest() == path.stem, name, 0, "version id is another")
        versions.append(attempt(parse_manifest, name, data))
    paths = [path for top in ("index", "attrs", "shard") for path in (root / top).rglob("*") if not path.is_dir()]
    files = sorted(path.relative_to(root).as_posix() for path in paths)
    for file in files:
        shards.setdefault(segment_of(file), []).append(file)

    current = {seg.content for seg in manifest.segments}
    for version in filter(None, versions):
        segments = []
        for seg in version.segments:
            names, index, attrs = (index_file(seg.content), attrs_file(seg.attrs)), None, None
            in_force = [file for file in shards.get(seg.content, ()) if file in lock or seg.content not in current]
            known.update(names, in_force)
            if version is manifest:
                attempt(shard_in_force, lock, seg.content)
            if version is manifest or (root / names[0]).exists():           # files of older versions may be gone
                index = once(names[0], check_index, seg.content)
            if index and (version is manifest or (root / names[1]).exists()):
                attrs = once(names[1], check_attributes, seg.attrs, index.keys)
            for file in in_force if index else ():
                hashes[file] = once(file, check_shard, index)
            segments.append((index, attrs))
        if all(index and attrs is not None for index, attrs in segments):
            attempt(check_manifest, version, segments)
    for file, digest in lock.items():
        attempt(need, segment_of(file) in current, "shard.sha256", 0, f"{file} is of no segment of this version")
        attempt(need, (root / file).exists(), file, 0, "the lock names it, but it is not there")
        attempt(need, not hashes.get(file) or hashes[file][1] == digest, file, 0, "SHA-256 is not that of the lock")
    for file in files:
        attempt(need, file in known, file, 0, "unknown file")
    return faults, manifest, sum(unread for unread, _ in filter(None, hashes.values()))


def keys_and_samples(root, seg):
    return parse_index(index_file(seg.content), read(root, index_file(seg.content)))


def cat(root, key):
    segments = parse_manifest("dataset.phm", read(root, "dataset.phm")).segments
    seg = segments[max(0, bisect.bisect([seg.first for seg in segments], key) - 1)]
    keys, samples = keys_and_samples(root, seg)
    if key not in keys:
        raise ValueError(f"no key `{to_text(key)}`")
    number = keys.index(key)
    names = [name for name, _, _ in samples[number]]
    field = names.index(b"data") if b"data" in names else 0
    file = shard_in_force(parse_lock("shard.sha256", read(root, "shard.sha256")), seg.content)
    data = mapped(root, file)
    extent = parse_shard(file, data)[0][sum(map(len, samples[:number])) + field]
    found = payload(file, data, extent, *samples[number][field][1:])
    if found is None:
        raise ValueError(f"`{to_text(key)}` is compressed, and this Python has no zstd")
    return found


def main(command="", *args):
    if command == "list" and len(args) == 1:
        for seg in parse_manifest("dataset.phm", read(Path(args[0]), "dataset.phm")).segments:
            for key in keys_and_samples(Path(args[0]), seg)[0]:
                sys.stdout.buffer.write(to_text(key).encode() + b"\n")
    elif command == "cat" and len(args) == 2:
        sys.stdout.buffer.write(cat(Path(args[0]), from_text(args[1])))
    elif command == "verify" and len(args) == 1:
        faults, manifest, unread = verify(Path(args[0]))
        if faults:
            return "\n".join(map(str, faults[:20])) + (f"\nand {len(faults) - 20} more" if len(faults) > 20 else "")
        print(f"ok: {sum(seg.samples for seg in manifest.segments)} samples, {sum(seg.bytes for seg in manifest.segments)} bytes")
        if unread:
            print(f"not decompressed, as this Python has no zstd: {unread} records, their CRC-32C checked only")
    else:
        return __doc__


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except (Fault, ValueError) as problem:
        sys.exit(str(problem))
