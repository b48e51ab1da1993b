"""STL-10: images of 3 × 96 × 96 bytes, each colour column by column; labels 1 … 10, a byte each."""

from collections.abc import Sequence

import numpy as np

from fedtide.data.base import Arrays, Contents, File, check_bytes, check_count, classes_from, wrong


def read(files: Sequence[File], expected: Contents) -> Arrays:
    """Training images and labels, test images and labels. The unlabelled images are not read."""
    height, width, channels = expected.shape
    pixels = height * width * channels
    found = []
    for part, (images, labels) in enumerate((files[:2], files[2:])):
        sizes, others = (expected.train, expected.test)[:: 1 - 2 * part]
        size = len(images.content)
        if size in (*sizes, *others):
            wrong(images.where, f"images expected, {size:,} bytes found, as many as labels; are the files swapped?")
        if size % pixels:
            check_bytes(images, size, sizes[0] * pixels, f"{sizes[0]:,} × {pixels:,}")
        check_count(images, "images", size // pixels, sizes, others)
        check_count(labels, "labels", len(labels.content), (size // pixels,), others)
        stored = np.frombuffer(images.content, np.uint8).reshape(-1, channels, width, height)
        classes = classes_from(labels, np.frombuffer(labels.content, np.uint8), expected.classes, first=1)
        found += [np.ascontiguousarray(stored.transpose(0, 3, 2, 1)), classes]
    return Arrays(*found)
