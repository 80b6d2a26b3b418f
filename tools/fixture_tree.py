"""The bytes of every file in fixtures/tree, made from nothing but this code and one version of Pillow."""
import io
import random
import struct
import zlib

from PIL import Image, ImageDraw

CLASSES = ("cat", "dog", "horse", "owl")
PLAIN = {"train": 6, "val": 3}      # ordinary JPEGs in each class of a split

ERROR_PAGE = b"""<!DOCTYPE html>
<html><head><title>404 Not Found</title></head>
<body><h1>Not Found</h1><p>The picture is no longer here.</p></body></html>
"""
NOTES = b"horse-0003 was taken at dusk\nask again for the ones by the river\n"


def draw(kind, name, size=None):
    """An RGB picture of the given kind: a gradient, the kind's shape and some noise; `name` decides the rest."""
    rng = random.Random(name)
    width, height = size = size or (rng.randint(32, 160), rng.randint(32, 160))
    sky, ground, ink = (tuple(rng.randrange(256) for _ in range(3)) for _ in range(3))
    ramp = Image.linear_gradient("L").rotate(rng.choice((0, 90, 180, 270))).resize(size)
    image = Image.composite(Image.new("RGB", size, sky), Image.new("RGB", size, ground), ramp)
    pen = ImageDraw.Draw(image)
    x, y = rng.randint(width // 3, 2 * width // 3), rng.randint(height // 3, 2 * height // 3)
    r = min(size) // rng.choice((3, 4))
    if kind == "cat":
        pen.ellipse((x - r, y - r, x + r, y + r), fill=ink)
        for side in (-1, 1):
            pen.polygon(((x + side * r, y - r // 2), (x + side * r // 4, y - r), (x + side * r, y - 2 * r)), fill=ink)
    elif kind == "dog":
        pen.ellipse((x - r, y - r, x + r, y + r), fill=ink)
        for side in (-1, 1):
            middle = x + side * r
            pen.ellipse((middle - r // 3, y - r // 2, middle + r // 3, y + r), fill=ground)
    elif kind == "horse":
        for left in range(x - r, x + r, max(2, r // 3)):
            pen.line((left, y - r, left + r // 2, y + r), fill=ink, width=2)
    else:
        for radius in range(r, 0, -max(2, r // 4)):
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=ink, width=2)
    noise = Image.frombytes("RGB", size, rng.randbytes(3 * width * height))
    return Image.blend(image, noise, 0.06)


def encoded(image, form, **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def jpeg(image, **options):
    return encoded(image, "JPEG", **{"quality": 85, **options})


def png(image, **options):
    return encoded(image, "PNG", **options)


def rotated_jpeg(image):
    """Stored lying on its side, with the EXIF orientation (6) by which a viewer turns it upright."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(image.transpose(Image.Transpose.ROTATE_90), exif=exif)


def palette_png(image):
    return png(image.quantize(16, dither=Image.Dither.NONE), transparency=0)


def rgba(image):
    image = image.convert("RGBA")
    image.putalpha(Image.radial_gradient("L").resize(image.size))
    return image


def deep_png(size, name):
    """A 16-bit grey PNG whose low bytes matter: a ramp with noise beneath what 8 bits can hold."""
    rng = random.Random(name)
    width, height = size
    values = (min(65535, (x + y) * 65536 // (width + height) + rng.randrange(256)) for y in range(height) for x in range(width))
    return png(Image.frombytes("I;16", size, b"".join(struct.pack("<H", value) for value in values)))


def bloated_jpeg(image):
    """A JPEG whose header is longer than what a sniffer reads first: 9 KB of comments before the frame."""
    data = jpeg(image)
    comment = b"\xff\xfe" + struct.pack(">H", 3002) + b"packhorse " * 300
    return data[:2] + 3 * comment + data[2:]


def padded_png(image):
    """A PNG with a private chunk and with bytes after its end, both of which decoders pass over."""
    data = png(image)
    body = b"phTsnothing to see"
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return data[:33] + chunk + data[33:] + b"trailing bytes"


def generate():
    """All files of the tree: relative path to bytes."""
    tree = {}
    for split, count in PLAIN.items():
        for kind in CLASSES:
            for i in range(1, count + 1):
                name = f"{split}/{kind}/{kind}-{i:04d}.jpg"
                tree[name] = jpeg(draw(kind, name))

    # What the bytes are
    tree["train/cat/cmyk.jpg"] = jpeg(draw("cat", "cmyk").convert("CMYK"))
    tree["train/cat/png-inside.jpg"] = png(draw("cat", "png inside"))
    tree["train/cat/progressive.jpg"] = jpeg(draw("cat", "progressive"), progressive=True)
    tree["train/cat/alpha.png"] = png(rgba(draw("cat", "alpha")))
    tree["train/dog/grey.jpg"] = jpeg(draw("dog", "grey").convert("L"))
    tree["train/dog/jpeg-inside.png"] = jpeg(draw("dog", "jpeg inside"))
    tree["train/dog/long-header.jpg"] = bloated_jpeg(draw("dog", "long header"))
    tree["train/dog/extra-bytes.png"] = padded_png(draw("dog", "extra bytes"))
    tree["train/horse/bitmap.bmp"] = encoded(draw("horse", "bitmap", (48, 36)), "BMP")
    tree["train/horse/deep.png"] = deep_png((64, 48), "deep")
    tree["train/horse/exif-orientation-6.jpg"] = rotated_jpeg(draw("horse", "orientation", (120, 80)))
    tree["train/horse/one-bit.png"] = png(draw("horse", "one bit").convert("1"))
    tree["train/owl/lossless.webp"] = encoded(draw("owl", "lossless", (64, 64)), "WEBP", lossless=True)
    tree["train/owl/lossy.webp"] = encoded(draw("owl", "lossy"), "WEBP", quality=80)
    tree["train/owl/moving.gif"] = encoded(draw("owl", "frame 1", (64, 48)), "GIF", save_all=True,
                                           append_images=[draw("owl", "frame 2", (64, 48))], duration=100)
    tree["train/owl/one-pixel.png"] = png(Image.new("RGB", (1, 1), (200, 120, 40)))
    tree["train/owl/palette-transparent.png"] = palette_png(draw("owl", "palette"))

    # What went wrong with them
    tree["train/dog/cut-in-half.jpg"] = (whole := jpeg(draw("dog", "cut in half")))[:len(whole) // 2]
    tree["train/dog/end-missing.jpg"] = jpeg(draw("dog", "end missing"))[:-2]
    tree["train/dog/empty.png"] = b""
    tree["val/dog/error-page.jpg"] = ERROR_PAGE
    tree["val/cat/seen-in-training.jpg"] = tree["train/cat/cat-0002.jpg"]

    # How they are named
    tree["train/cat/UPPER.JPG"] = jpeg(draw("cat", "upper"))
    tree["train/dog/Mixed.Jpeg"] = jpeg(draw("dog", "mixed"))
    tree["train/cat/caf\u00e9.jpg"] = jpeg(draw("cat", "composed"))
    tree["train/owl/\u8c93\u982d\u9df9.jpg"] = jpeg(draw("owl", "cjk"))
    tree["val/owl/\U0001f989.jpg"] = jpeg(draw("owl", "emoji"))
    tree["train/horse/a name with spaces.jpg"] = jpeg(draw("horse", "spaces"))
    tree["train/horse/some.dots.v2.final.jpg"] = jpeg(draw("horse", "dots"))
    tree["val/horse/100%25 #1 & [best].jpg"] = jpeg(draw("horse", "signs"))
    tree["val/horse/-dash.jpg"] = jpeg(draw("horse", "dash"))
    # With the `/` counted these sort barn-owl.jpg, barn.jpg, barn/...; a walk that sorts bare names has the folder first.
    tree["train/owl/barn/barn-0001.jpg"] = jpeg(draw("owl", "in a folder"))
    tree["train/owl/barn-owl.jpg"] = jpeg(draw("owl", "before the dot"))
    tree["train/owl/barn.jpg"] = jpeg(draw("owl", "before the folder"))

    # What is no sample at all
    tree["train/horse/notes.txt"] = NOTES
    tree["train/.DS_Store"] = b"\x00\x00\x00\x01Bud1" + bytes(56)
    tree["train/cat/._cat-0001.jpg"] = bytes.fromhex("00051607 00020000") + b"Mac OS X".ljust(16) + bytes(58)
    tree["val/owl/Thumbs.db"] = bytes.fromhex("d0cf11e0 a1b11ae1") + bytes(56)
    return tree
