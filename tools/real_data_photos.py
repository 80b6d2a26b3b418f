"""Crops the photos of the unpacked wallpaper packages into a set of small images. `tools/real-data` calls this.

The files are the same on every run with one version of Pillow and of the packages.
"""
import argparse
import functools
import hashlib
import io
import multiprocessing
import os
import random
from pathlib import Path

from private_venv import require_pillow

require_pillow()
from PIL import Image  # noqa: E402

FORMATS = (".png", ".jpg", ".jpeg", ".webp")
LEAST_SIDE = 600                        # pixels of a photo
TRIALS, GOOD = 10, 3                    # a photo serves if so many of its trial crops have a wanted size: plain wallpapers do not
Image.MAX_IMAGE_PIXELS = None           # wallpapers of 60 megapixels are no attack


class Imagenetish:
    """JPEGs with the sides and sizes of ImageNet's."""

    classes, count, photos_each = 100, 20_000, 4
    accepted = range(60_000, 150_000)
    longest = None

    def class_name(self, number):
        return f"n{number:04d}"

    def make(self, rng, photo):
        long, short = 500, rng.choice((333, 375, 375, 375, 400, 500))
        image = crop(rng, photo, (long, short) if rng.random() < 0.7 else (short, long), (0.3, 1.0))
        data = jpeg(image, 90)
        if len(data) >= self.accepted.stop:
            data = jpeg(image, 80)
        elif len(data) < self.accepted.start:
            data = jpeg(image, 95)
        return data, ".JPEG"


class Tiny:
    """JPEG and PNG thumbnails, where the cost of a file is far more than its bytes."""

    classes, count, photos_each = 10, 50_000, 12
    accepted = range(1_200, 4_100)
    longest = 900                       # side to which a photo is shrunk before it is cropped

    def class_name(self, number):
        return f"class{number}"

    def make(self, rng, photo):
        if rng.random() < 0.5:
            side = rng.choice((56, 64))
            return jpeg(crop(rng, photo, (side, side), (0.05, 0.6)), 88), ".jpg"
        buffer = io.BytesIO()
        crop(rng, photo, (32, 32), (0.05, 0.6)).save(buffer, "PNG")
        return buffer.getvalue(), ".png"


SETS = {"imagenetish": Imagenetish(), "tiny50k": Tiny()}


def jpeg(image, quality):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def crop(rng, photo, size, scale):
    """A random part of the photo in the shape of `size`, shrunk to it; `scale` bounds the part's share of the photo's side."""
    width, height = size
    largest = min(photo.width / width, photo.height / height)
    factor = min(largest, max(1.0, rng.uniform(*scale) * largest))
    part = int(width * factor), int(height * factor)
    left, top = rng.randint(0, photo.width - part[0]), rng.randint(0, photo.height - part[1])
    image = photo.resize(size, Image.Resampling.BILINEAR, box=(left, top, left + part[0], top + part[1]), reducing_gap=2.0)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def opened(path, longest=None):
    photo = Image.open(path).convert("RGB")
    if longest:
        photo.thumbnail((longest, longest), Image.Resampling.BILINEAR)
    return photo


def serves(kind, path):
    """Whether the picture is large, opaque and rich enough in detail for this kind of set."""
    with Image.open(path) as image:
        if min(image.size) < LEAST_SIDE or (image.mode == "RGBA" and image.getextrema()[3][0] < 255):
            return False
    rng, photo = random.Random(path.name), opened(path, SETS[kind].longest)
    return sum(len(SETS[kind].make(rng, photo)[0]) in SETS[kind].accepted for _ in range(TRIALS)) >= GOOD


def photos_under(root, kind, pool):
    """The distinct photos that serve, in an order that mixes the packages."""
    paths = {}
    for path in sorted(root.rglob("*")):
        if path.suffix.lower() in FORMATS and path.is_file() and not path.is_symlink():
            paths.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
    mixed = [paths[digest] for digest in sorted(paths)]
    return [path for path, good in zip(mixed, pool.map(functools.partial(serves, kind), mixed, chunksize=1)) if good]


def make_class(kind, out, count, number, paths):
    """Writes one class folder of `count` images; returns how many bytes they have."""
    rng = random.Random(f"{kind} {number}")
    photos = [opened(path, SETS[kind].longest) for path in paths]
    name = SETS[kind].class_name(number)
    folder = out / name
    folder.mkdir(parents=True)
    written = total = 0
    while written < count:
        data, suffix = SETS[kind].make(rng, rng.choice(photos))
        if len(data) in SETS[kind].accepted:
            (folder / f"{name}_{written:05d}{suffix}").write_bytes(data)
            written, total = written + 1, total + len(data)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=SETS)
    parser.add_argument("photos", type=Path, help="folder with the unpacked packages")
    parser.add_argument("out", type=Path, help="empty folder for the class folders")
    parser.add_argument("--count", type=int, help="files in all (default: as many as the set has)")
    args = parser.parse_args()
    wanted = SETS[args.kind]
    count = args.count or wanted.count
    with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
        photos = photos_under(args.photos, args.kind, pool)
        if not photos:
            raise SystemExit(f"error: no photos under {args.photos}")
        print(f"{len(photos)} photos", flush=True)
        jobs = []
        for number in range(wanted.classes):
            share = count // wanted.classes + (number < count % wanted.classes)
            picks = random.Random(number).sample(photos, min(wanted.photos_each, len(photos)))
            jobs.append((share, number, picks))
        total = sum(pool.starmap(functools.partial(make_class, args.kind, args.out), jobs, chunksize=1))
    print(f"{count} images of {total / count / 1000:.1f} KB on average")


if __name__ == "__main__":
    main()
